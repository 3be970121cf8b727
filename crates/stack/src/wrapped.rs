//! Seeing through `sluice wrap`: which server stands behind a command of ours.

use std::path::Path;

use crate::{
    entry::{Transport, Wrapped},
    guarded::Guarded,
};

/// The variable that a URL with a secret in it is kept in.
pub(crate) const URL_VARIABLE: &str = "SLUICE_UPSTREAM_URL";

/// The server itself, and what is said of it if a command of ours stands before it.
pub(crate) fn seen_through(transport: Transport) -> (Transport, Option<Wrapped>) {
    let Transport::Command { program, args, env } = &transport else { return (transport, None) };
    let words: Vec<&str> = args.iter().map(Guarded::expose).collect();
    if !is_sluice(program.expose()) || !words.contains(&"wrap") {
        return (transport, None);
    }
    let mut read = Read::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match *word {
            "--" => break,
            "--name" => read.name = rest.next().map(ToString::to_string),
            "--policy" => read.policy = rest.next().map(ToString::to_string),
            "--url" => read.url = rest.next().copied(),
            "--header" => read.headers.extend(rest.next()),
            _ => {}
        }
    }
    let command: Vec<String> = rest.map(ToString::to_string).collect();
    let inner = match (command.split_first(), read.url) {
        (Some((program, args)), _) => Transport::Command {
            program: Guarded::program(program),
            args: Guarded::arguments(args),
            env: env.clone(),
        },
        (None, Some(url)) => Transport::Url {
            url: Guarded::url(resolved(url, env)),
            headers: read.headers.iter().filter_map(|header| header_of(header, env)).collect(),
        },
        (None, None) => Transport::Unclear,
    };
    (inner, Some(Wrapped { name: read.name, policy: read.policy }))
}

/// What the arguments of `sluice wrap` say.
#[derive(Default)]
struct Read<'a> {
    name: Option<String>,
    policy: Option<String>,
    url: Option<&'a str>,
    headers: Vec<&'a str>,
}

fn is_sluice(program: &str) -> bool {
    Path::new(program).file_stem().is_some_and(|stem| stem == "sluice")
}

/// What `env:NAME` means in an entry's own variables; the text itself otherwise.
fn resolved(text: &str, env: &[(String, Guarded)]) -> String {
    let (before, name) = match text.strip_prefix("Bearer env:") {
        Some(name) => ("Bearer ", name),
        None => match text.strip_prefix("env:") {
            Some(name) => ("", name),
            None => return text.to_owned(),
        },
    };
    match env.iter().find(|(variable, _)| variable == name) {
        Some((_, value)) => format!("{before}{}", value.expose()),
        // One that the client's own environment has.
        None => format!("{before}${{{name}}}"),
    }
}

fn header_of(text: &str, env: &[(String, Guarded)]) -> Option<(String, Guarded)> {
    let (name, value) = text.split_once(':')?;
    Some((name.trim().to_owned(), Guarded::secret(resolved(value.trim(), env))))
}
