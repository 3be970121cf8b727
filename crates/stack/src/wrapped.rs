//! Recognises `sluice wrap` entries and finds the server behind them.

use std::path::Path;

use crate::{
    adopt::Front,
    entry::{Transport, Wrapped},
    guarded::Guarded,
};

/// The variable that holds the URL.
pub(crate) const URL_VARIABLE: &str = "SLUICE_UPSTREAM_URL";

/// The server itself, and its settings if it is behind a command that `adopt` has written.
///
/// Only commands in exactly that form are unwrapped: another command called `sluice`
/// may be any program, and need not start the command in its arguments.
pub(crate) fn unwrap_command(own: &Transport, front: &Front) -> (Transport, Option<Wrapped>) {
    match through(own, front) {
        Some((inner, wrapped)) => (inner, Some(wrapped)),
        None => (own.clone(), None),
    }
}

fn through(own: &Transport, front: &Front) -> Option<(Transport, Wrapped)> {
    let Transport::Command { program, env, .. } = own else { return None };
    let Words { data, policy, name, rest } = words(own)?;
    if !front.is_program(program.expose()) || data != front.data {
        return None;
    }
    let inner = match rest.as_slice() {
        ["--", program, args @ ..] => {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            Transport::Command {
                program: Guarded::program(*program),
                args: Guarded::arguments(&args),
                env: env.clone(),
            }
        }
        ["--url", url, headers @ ..] => Transport::Url {
            url: Guarded::url(resolve_variable(url, env)),
            headers: headers.chunks(2).map(|pair| header_of(pair, env)).collect::<Option<_>>()?,
        },
        _ => return None,
    };
    Some((inner, Wrapped { name: name.to_owned(), policy: policy.to_owned() }))
}

/// The arguments that `adopt` writes.
struct Words<'t> {
    data: &'t str,
    policy: &'t str,
    name: &'t str,
    rest: Vec<&'t str>,
}

/// The arguments of a command that looks like one that `adopt` writes, for any program and data
/// directory.
fn words(own: &Transport) -> Option<Words<'_>> {
    let Transport::Command { args, .. } = own else { return None };
    let all: Vec<&str> = args.iter().map(Guarded::expose).collect();
    let ["wrap", "--data", data, "--policy", policy, "--name", name, rest @ ..] = all.as_slice()
    else {
        return None;
    };
    let file = policy.strip_prefix(data).and_then(|file| file.strip_prefix(POLICIES));
    file.filter(|file| !file.is_empty() && !file.contains('/'))?;
    Some(Words { data, policy, name, rest: rest.to_vec() })
}

/// The folder of policies of adopted servers, in the data directory.
const POLICIES: &str = "/stack/policies/";

/// The data directory of a command that looks like one that `adopt` has written.
pub(crate) fn data(own: &Transport) -> Option<&str> {
    words(own).map(|words| words.data)
}

/// Whether a command is any `sluice wrap`, written by `adopt` or not.
pub(crate) fn is_wrap(own: &Transport) -> bool {
    let Transport::Command { program, args, .. } = own else { return false };
    let is_named = Path::new(program.expose()).file_stem().is_some_and(|stem| stem == "sluice");
    is_named && args.iter().any(|word| word.expose() == "wrap") || words(own).is_some()
}

/// Resolves `env:NAME` in an entry's own variables; returns other text unchanged.
fn resolve_variable(text: &str, env: &[(String, Guarded)]) -> String {
    let (before, name) = match text.strip_prefix("Bearer env:") {
        Some(name) => ("Bearer ", name),
        None => match text.strip_prefix("env:") {
            Some(name) => ("", name),
            None => return text.to_owned(),
        },
    };
    match env.iter().find(|(variable, _)| variable == name) {
        Some((_, value)) => format!("{before}{}", value.expose()),
        // The variable is in the client's environment.
        None => format!("{before}${{{name}}}"),
    }
}

fn header_of(pair: &[&str], env: &[(String, Guarded)]) -> Option<(String, Guarded)> {
    let ["--header", text] = pair else { return None };
    let (name, value) = text.split_once(':')?;
    Some((name.trim().to_owned(), Guarded::secret(resolve_variable(value.trim(), env))))
}
