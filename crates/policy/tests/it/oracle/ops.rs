//! The operators: whether one holds for one argument, cannot be judged, or is false.

use regex::Regex;
use serde_json::Value;
use url::{Host, Url};

use super::decimal::Decimal;
use super::entry::list;
use super::pattern::texts;
use super::walk::Problem;

/// Judges one operator on one argument; `None` stands for an absent one.
pub(crate) fn holds(
    op: &str,
    value: Option<&Value>,
    argument: Option<&Value>,
) -> Result<bool, Problem> {
    if op == "exists" {
        let wanted = value.and_then(Value::as_bool).unwrap_or(true);
        return Ok(wanted == argument.is_some_and(|argument| !argument.is_null()));
    }
    let Some(argument) = argument else { return Ok(false) };
    let absent = Value::Null;
    let value = value.unwrap_or(&absent);
    match op {
        "eq" => one_of(argument, std::slice::from_ref(value)),
        "neq" => one_of(argument, std::slice::from_ref(value)).map(|same| !same),
        "in" => one_of(argument, &list(Some(value))),
        "not_in" => one_of(argument, &list(Some(value))).map(|among| !among),
        "lt" => numbers(argument, value).map(|(left, right)| left < right),
        "lte" => numbers(argument, value).map(|(left, right)| left <= right),
        "gt" => numbers(argument, value).map(|(left, right)| left > right),
        "gte" => numbers(argument, value).map(|(left, right)| left >= right),
        "contains" => contains(argument, value),
        "starts_with" => Ok(text(argument)?.starts_with(text(value)?)),
        "ends_with" => Ok(text(argument)?.ends_with(text(value)?)),
        "regex" => {
            Ok(Regex::new(text(value)?).map_err(|_| Problem::Type)?.is_match(text(argument)?))
        }
        "path_within" => path_within(text(argument)?, &texts(Some(value))),
        "url_host_in" => url_host_in(text(argument)?, &texts(Some(value))),
        // Loading knows every operator; what cannot be answered denies.
        _ => Err(Problem::Type),
    }
}

/// The text of a value; anything else cannot be judged.
fn text(value: &Value) -> Result<&str, Problem> {
    value.as_str().ok_or(Problem::Type)
}

/// Both sides as numbers; anything else cannot be judged.
fn numbers(argument: &Value, value: &Value) -> Result<(Decimal, Decimal), Problem> {
    Decimal::of(argument).zip(Decimal::of(value)).ok_or(Problem::Type)
}

/// The name of a scalar's type; `None` for null, lists and objects, which these
/// operators never take.
fn scalar_type(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(_) => Some("string"),
        Value::Number(_) => Some("number"),
        Value::Bool(_) => Some("boolean"),
        _ => None,
    }
}

/// Whether a scalar is among others. Its type must occur among theirs.
fn one_of(argument: &Value, among: &[Value]) -> Result<bool, Problem> {
    let kind = scalar_type(argument).ok_or(Problem::Type)?;
    if !among.iter().any(|value| scalar_type(value) == Some(kind)) {
        return Err(Problem::Type);
    }
    Ok(among.iter().any(|value| same(argument, value)))
}

/// Equality without coercion: numbers as exact decimals, text by code point, lists and
/// objects by their parts.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => Decimal::of(left) == Decimal::of(right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        _ => left == right,
    }
}

/// A part of a string, or an element of a list.
fn contains(argument: &Value, value: &Value) -> Result<bool, Problem> {
    match argument {
        Value::String(whole) => Ok(whole.contains(text(value)?)),
        Value::Array(items) => Ok(items.iter().any(|item| same(item, value))),
        _ => Err(Problem::Type),
    }
}

/// Whether a path lies in one of the directories, by whole segments.
fn path_within(path: &str, directories: &[String]) -> Result<bool, Problem> {
    let path = resolve(path)?;
    // A directory that cannot be resolved holds nothing.
    let directories: Vec<_> =
        directories.iter().filter_map(|directory| resolve(directory).ok()).collect();
    Ok(directories.iter().any(|directory| path.starts_with(directory)))
}

/// The segments of an absolute path after lexical resolution.
fn resolve(path: &str) -> Result<Vec<String>, Problem> {
    if !path.starts_with('/') || path.contains(['\0', '\\']) || is_device(path) {
        return Err(Problem::Type);
    }
    let mut resolved: Vec<String> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            // Above the root there is only the root.
            ".." => drop(resolved.pop()),
            // A server may expand a leading tilde even in a segment that `..` takes
            // away again.
            home if home.starts_with('~') => return Err(Problem::Type),
            name => resolved.push(name.to_owned()),
        }
    }
    Ok(resolved)
}

/// The device forms that begin with a slash. The page does not list them; that `/??/` is
/// one, as Windows has it, is a decision taken since.
fn is_device(path: &str) -> bool {
    ["//./", "//?/", "/??/"].iter().any(|form| path.starts_with(form))
}

/// Whether the host of a URL matches one of the host patterns.
fn url_host_in(text: &str, patterns: &[String]) -> Result<bool, Problem> {
    let url = Url::parse(text).map_err(|_| Problem::Type)?;
    if has_user_info(text, &url) {
        return Err(Problem::Type);
    }
    // A URL without a host is an absolute URL all the same, and its host is in no list.
    let Some(host) = url.host() else { return Ok(false) };
    let is_name = matches!(host, Host::Domain(_));
    let host = host.to_string();
    // A name with a dot at its end is the same machine to some programs and another to
    // others, so it is a decision taken since the page that it cannot be judged.
    // The same goes for a host that is not spelt as a web URL would have it.
    let web = ["http", "https", "ws", "wss", "ftp", "file"].contains(&url.scheme());
    let plain = Host::parse(&host).is_ok() && plain_host(&host) == host && !odd(&host);
    if host.ends_with('.') || !(web || plain) {
        return Err(Problem::Type);
    }
    Ok(patterns.iter().any(|pattern| match pattern.strip_prefix("*.") {
        Some(parent) => is_name && is_below(&host, &plain_host(parent)),
        None => host == plain_host(pattern),
    }))
}

/// Whether a host has characters that no name of a machine has.
fn odd(host: &str) -> bool {
    host.chars().any(|c| !c.is_ascii_alphanumeric() && !".-_[]:".contains(c))
}

/// Whether there is user-info before the host. Parsing drops an empty one
/// (`https://@host`), and that it counts too is a decision taken since the page.
fn has_user_info(text: &str, url: &Url) -> bool {
    let plain = text.replace(['\t', '\n', '\r'], "");
    let rest = plain.split_once(':').map_or("", |(_, rest)| rest);
    let authority = match url.scheme() {
        "http" | "https" | "ws" | "wss" | "ftp" => {
            rest.trim_start_matches(['/', '\\']).split(['/', '\\', '?', '#']).next()
        }
        // A `file:` URL with user-info does not parse.
        "file" => None,
        _ => rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?', '#']).next()),
    };
    authority.is_some_and(|authority| authority.contains('@'))
}

/// Whether a host has one or more labels before `.` and the parent.
fn is_below(host: &str, parent: &str) -> bool {
    let labels = host.strip_suffix(parent).and_then(|rest| rest.strip_suffix('.'));
    labels.is_some_and(|labels| labels.split('.').all(|label| !label.is_empty()))
}

/// A host from the policy in the form that URL parsing gives hosts; loading has seen to
/// it that it is one.
fn plain_host(written: &str) -> String {
    Host::parse(written).map_or_else(|_| written.to_owned(), |host| host.to_string())
}
