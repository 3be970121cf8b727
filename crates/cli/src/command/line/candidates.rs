//! What a shell may complete: the names that the running gateway knows.
//!
//! If no gateway runs or it does not answer, there are no candidates, and nothing is printed.

use std::{collections::BTreeSet, path::PathBuf};

use clap_complete::CompletionCandidate;
use serde_json::Value;

use crate::api::ask_quietly;

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Server,
    Policy,
    Grant,
    Tool,
}

/// The arguments that name something of the running gateway: command, argument, and what it names.
pub(super) const COMPLETED: [(&str, &str, Kind); 38] = [
    ("call", "server", Kind::Server),
    ("call", "tool", Kind::Tool),
    ("server show", "name", Kind::Server),
    ("server tools", "name", Kind::Server),
    ("server edit", "name", Kind::Server),
    ("server edit", "anonymous_policy", Kind::Policy),
    ("server refresh", "name", Kind::Server),
    ("server remove", "name", Kind::Server),
    ("policy check", "server", Kind::Server),
    ("policy explain", "tool", Kind::Tool),
    ("policy suggest", "server", Kind::Server),
    ("policy put", "server", Kind::Server),
    ("policy put", "name", Kind::Policy),
    ("policy show", "server", Kind::Server),
    ("policy show", "name", Kind::Policy),
    ("policy history", "server", Kind::Server),
    ("policy history", "name", Kind::Policy),
    ("policy rollback", "server", Kind::Server),
    ("policy rollback", "name", Kind::Policy),
    ("policy remove", "server", Kind::Server),
    ("policy remove", "name", Kind::Policy),
    ("grant create", "servers", Kind::Server),
    ("grant create", "policy", Kind::Policy),
    ("grant show", "id", Kind::Grant),
    ("grant edit", "id", Kind::Grant),
    ("grant edit", "servers", Kind::Server),
    ("grant edit", "policy", Kind::Policy),
    ("grant rotate", "id", Kind::Grant),
    ("grant revoke", "id", Kind::Grant),
    ("people add", "servers", Kind::Server),
    ("people edit", "servers", Kind::Server),
    ("tokens create", "servers", Kind::Server),
    ("log", "server", Kind::Server),
    ("log", "grant", Kind::Grant),
    ("log", "tool", Kind::Tool),
    ("log export", "server", Kind::Server),
    ("log export", "grant", Kind::Grant),
    ("log export", "tool", Kind::Tool),
];

/// The names of one kind, each once.
pub(super) fn find(kind: Kind) -> Vec<CompletionCandidate> {
    let words: Vec<_> = std::env::args().collect();
    let names = match kind {
        Kind::Server => server_names(&words),
        Kind::Policy => of_servers(&words, "policies"),
        Kind::Tool => of_servers(&words, "tools"),
        Kind::Grant => list(&words, &["grants"], "grants", "label"),
    };
    let names: BTreeSet<_> = names.into_iter().collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn server_names(words: &[String]) -> Vec<String> {
    list(words, &["servers"], "servers", "name")
}

/// The policies or tools of the servers that the line names, or of all if it names none.
fn of_servers(words: &[String], what: &str) -> Vec<String> {
    let mut servers = server_names(words);
    if servers.iter().any(|server| words.contains(server)) {
        servers.retain(|server| words.contains(server));
    }
    let names = |server: &String| list(words, &["servers", server, what], what, "name");
    servers.iter().flat_map(names).collect()
}

/// The member `name` of all items in a list of the API.
fn list(words: &[String], path: &[&str], items: &str, name: &str) -> Vec<String> {
    let answer = ask_quietly(data_directory(words), path);
    let items = answer.as_ref().and_then(|answer| answer.get(items)?.as_array());
    let name = |item: &Value| Some(item.get(name)?.as_str()?.to_owned());
    items.into_iter().flatten().filter_map(name).collect()
}

/// The value of `--data` in the line that is being completed.
fn data_directory(words: &[String]) -> Option<PathBuf> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--data" {
            return words.next().map(PathBuf::from);
        }
        if let Some(value) = word.strip_prefix("--data=") {
            return Some(PathBuf::from(value));
        }
    }
    None
}
