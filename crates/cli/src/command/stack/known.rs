//! Looks up a server's abilities and names without scanning it: in earlier scans, the catalogue,
//! the running gateway, and the gateway's configuration.

use sluice_catalog::Catalog;
use sluice_stack::{Ability, Changes, Entry, Guarded, Memory, Tool, Transport};
use sluice_store::{Server, Transport as Place};

use super::machine::Machine;
use crate::data::agents_url;

/// The abilities of a server, from its last scan, or else from the catalogue entry of its package.
pub(super) fn ability(
    memory: &Memory,
    catalog: Option<&Catalog>,
    entry: &Entry,
) -> Option<Ability> {
    memory.ability(entry).or_else(|| ability_from_catalog(catalog?, entry))
}

fn ability_from_catalog(catalog: &Catalog, entry: &Entry) -> Option<Ability> {
    let package = entry.transport.package()?;
    let server =
        catalog.server_of_package(package.registry.name(), &package.name).ok().flatten()?;
    server.counts?;
    let tools = catalog.tools(&server).ok()?.into_iter().map(|tool| Tool {
        category: tool.traits.category.name().to_owned(),
        risk: tool.traits.risk().name().to_owned(),
        findings: usize::try_from(tool.traits.findings.total()).unwrap_or(usize::MAX),
        name: tool.name,
        digest: String::new(),
    });
    let (tools, source) = (tools.collect(), format!("catalogue: {}", server.source));
    Some(Ability { tools, source, is_hearsay: true, changes: Changes::default() })
}

/// The server's name in the gateway that runs on the data directory, if its URL points there.
pub(super) fn name_in_gateway(machine: &Machine, entry: &Entry) -> Option<String> {
    let Transport::Url { url, .. } = &entry.transport else { return None };
    let rest = url.expose().split_once("://")?.1;
    let gateway = agents_url(&machine.data).ok()?;
    let (host, path) = rest.split_once('/')?;
    let (gateway_host, port) = gateway.split_once("://")?.1.rsplit_once(':')?;
    let is_here = host == format!("{gateway_host}:{port}") || host == format!("localhost:{port}");
    let name = path.strip_prefix("mcp").filter(|_| is_here)?.trim_matches('/');
    Some(if name.is_empty() { "all servers".to_owned() } else { name.to_owned() })
}

/// The server's name in the gateway's configuration, if it is declared there too.
pub(super) fn declared_name<'s>(servers: &'s [Server], entry: &Entry) -> Option<&'s str> {
    let is_same = |server: &&Server| match (&server.transport, &entry.transport) {
        (Place::Http { url, .. }, Transport::Url { url: theirs, .. }) => {
            url.expose() == theirs.expose()
        }
        (Place::Command { command, .. }, Transport::Command { program, args, .. }) => {
            let words = std::iter::once(program).chain(args).map(Guarded::expose);
            words.eq(command.iter().map(String::as_str))
        }
        _ => false,
    };
    servers.iter().find(is_same).map(|server| server.name.as_str())
}
