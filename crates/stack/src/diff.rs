//! The diff of one entry, line by line, for people. It is built from masked values and
//! never from the file's text, so that it cannot show a secret.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::{
    entry::{HEADER_KEYS, URL_KEYS},
    guarded::{Guarded, MASK},
    json::quote,
    locations::Syntax,
};

/// The width of a line of arguments.
const WIDTH: usize = 72;

/// The diff of one entry.
pub(crate) fn diff_entry(syntax: Syntax, keys: &[String], sides: [Option<Value>; 2]) -> String {
    let [before, after] = sides.map(|side| lines(syntax, &side.unwrap_or_default()));
    // The key path may contain any text, so control characters are replaced.
    let path: Vec<_> = keys.iter().map(|key| key.replace(char::is_control, "?")).collect();
    let mut text = format!("@@ {} @@\n", path.join("."));
    for (sign, line) in compare_lines(&before, &after) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{sign} {line}");
    }
    text
}

/// Compares two lists of lines: the common lines at the start and the end are shown once.
fn compare_lines<'l>(before: &'l [String], after: &'l [String]) -> Vec<(char, &'l str)> {
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let left = before.len().min(after.len()) - same;
    let tail =
        before.iter().rev().zip(after.iter().rev()).take(left).take_while(|(a, b)| a == b).count();
    let part = |lines: &'l [String], sign: char| {
        let middle = lines.iter().skip(same).take(lines.len() - same - tail);
        middle.map(move |line| (sign, line.as_str()))
    };
    let kept = |lines: &'l [String], from: usize, most: usize| {
        lines.iter().skip(from).take(most).map(|line| (' ', line.as_str()))
    };
    kept(before, 0, same)
        .chain(part(before, '-'))
        .chain(part(after, '+'))
        .chain(kept(before, before.len() - tail, tail))
        .collect()
}

fn lines(syntax: Syntax, entry: &Value) -> Vec<String> {
    let empty = Map::new();
    let members = entry.as_object().unwrap_or(&empty);
    let mut lines = Vec::new();
    for (key, value) in members {
        let name = match syntax {
            Syntax::Json => format!("{}: ", quote(key)),
            Syntax::Toml => format!("{key} = "),
        };
        match (key.as_str(), value) {
            ("args", Value::Array(items)) => lines.extend(wrap_arguments(&name, items)),
            _ => lines.push(format!("{name}{}", single(key, value))),
        }
    }
    lines
}

/// A value on one line, with everything masked that could be a secret.
fn single(key: &str, value: &Value) -> String {
    match value {
        Value::String(text) if ["command", "path"].contains(&key) => {
            quote(Guarded::program(text.as_str()).as_masked())
        }
        Value::String(text) if URL_KEYS.contains(&key) => {
            quote(Guarded::url(text.as_str()).as_masked())
        }
        Value::String(text) if ["type", "cwd", "bearer_token_env_var"].contains(&key) => {
            quote(text)
        }
        Value::Bool(_) | Value::Null => value.to_string(),
        Value::Array(items) if key == "env_vars" => Value::Array(items.clone()).to_string(),
        Value::Object(members) if key == "env" || HEADER_KEYS.contains(&key) => {
            let pairs: Vec<_> =
                members.keys().map(|name| format!("{}: {MASK}", quote(name))).collect();
            if pairs.is_empty() { "{}".into() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
        // Older versions of Zed nest program and arguments one level deeper.
        Value::Object(members) if key == "command" => {
            let inner = members.iter().map(|(key, value)| match (key.as_str(), value) {
                ("args", Value::Array(items)) => {
                    format!("{}: [{}]", quote(key), mask_arguments(items).join(", "))
                }
                _ => format!("{}: {}", quote(key), single(key, value)),
            });
            format!("{{ {} }}", inner.collect::<Vec<_>>().join(", "))
        }
        // Unchanged keys are not shown.
        _ => "…".to_owned(),
    }
}

fn mask_arguments(items: &[Value]) -> Vec<String> {
    let texts: Vec<String> = items
        .iter()
        .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
        .collect();
    Guarded::arguments(&texts).iter().map(|one| quote(one.as_masked())).collect()
}

/// Formats arguments, as many on a line as fit.
fn wrap_arguments(name: &str, items: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = format!("{name}[");
    let shown = mask_arguments(items);
    for (index, word) in shown.iter().enumerate() {
        let comma = if index + 1 < shown.len() { "," } else { "]" };
        let is_first = line.ends_with('[') || line.trim().is_empty();
        if !is_first && line.chars().count() + word.chars().count() + 2 > WIDTH {
            lines.push(std::mem::replace(&mut line, "    ".to_owned()));
        } else if !is_first {
            line.push(' ');
        }
        line.push_str(word);
        line.push_str(comma);
    }
    if shown.is_empty() {
        line.push(']');
    }
    lines.push(line);
    lines
}
