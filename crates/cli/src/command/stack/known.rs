//! What is known of a server before it is asked: from earlier scans, and from the
//! gateway that it may go through. Every other source is to be put in here.

use sluice_stack::{Ability, Entry, Memory, Transport};

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
