//! What is known of a server before it is asked: from earlier scans, from the
//! gateway that it may go through, and from the gateway's own configuration. Any
//! other source of what servers can do belongs into `ability`.

use sluice_stack::{Ability, Entry, Guarded, Memory, Transport};
use sluice_store::{Server, Transport as Place};

use super::machine::Machine;
use crate::data::agents_url;

/// What a server can do, if anything here knows.
pub(super) fn ability(memory: &Memory, entry: &Entry) -> Option<Ability> {
    memory.ability(entry)
}

/// What a server is called in the gateway that runs on the data directory, if
/// that is where its URL leads.
pub(super) fn registered(machine: &Machine, entry: &Entry) -> Option<String> {
    let Transport::Url { url, .. } = &entry.transport else { return None };
    let rest = url.expose().split_once("://")?.1;
    let gateway = agents_url(&machine.data).ok()?;
    let (host, path) = rest.split_once('/')?;
    let (gateway_host, port) = gateway.split_once("://")?.1.rsplit_once(':')?;
    let is_here = host == format!("{gateway_host}:{port}") || host == format!("localhost:{port}");
    let name = path.strip_prefix("mcp").filter(|_| is_here)?.trim_matches('/');
    Some(if name.is_empty() { "all servers".to_owned() } else { name.to_owned() })
}

/// What a server is called in the gateway's configuration, if that has it too.
pub(super) fn declared<'s>(servers: &'s [Server], entry: &Entry) -> Option<&'s str> {
    let is_same = |server: &&Server| match (&server.transport, &entry.transport) {
        (Place::Http { url, .. }, Transport::Url { url: theirs, .. }) => url == theirs.expose(),
        (Place::Command { command, .. }, Transport::Command { program, args, .. }) => {
            let words = std::iter::once(program).chain(args).map(Guarded::expose);
            words.eq(command.iter().map(String::as_str))
        }
        _ => false,
    };
    servers.iter().find(is_same).map(|server| server.name.as_str())
}
