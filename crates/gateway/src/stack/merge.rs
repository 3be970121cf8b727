//! Merging the capabilities and the metadata of several servers.

use std::{collections::HashMap, sync::Arc};

use sluice_wire::{edit::quote, json::Value, mcp::META_SERVER};

/// Merges objects into one, in time proportional to their size. Nested objects and lists are
/// merged too, a boolean is true if any is true, and of other values the first is taken.
pub(super) fn merge(objects: &[Value<'_>]) -> String {
    let mut places = HashMap::new();
    let mut members: Vec<(&str, Vec<Value<'_>>)> = Vec::new();
    for (key, value) in objects.iter().filter_map(|object| object.members()).flatten() {
        let key = key.as_str().unwrap_or_default();
        let place = *places.entry(key).or_insert(members.len());
        match members.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => members.push((key, vec![value])),
        }
    }
    let member =
        |(key, values): (&str, Vec<Value<'_>>)| format!("{}:{}", quote(key), merge_values(&values));
    let members: Vec<_> = members.into_iter().map(member).collect();
    format!("{{{}}}", members.join(","))
}

fn merge_values(values: &[Value<'_>]) -> String {
    let objects: Vec<_> =
        values.iter().copied().filter(|value| value.members().is_some()).collect();
    if !objects.is_empty() {
        return merge(&objects);
    }
    if values.iter().any(|value| value.items().is_some()) {
        let mut items: Vec<_> =
            values.iter().filter_map(|value| value.items()).flatten().map(Value::raw).collect();
        let mut seen = std::collections::HashSet::new();
        items.retain(|item| seen.insert(*item));
        return format!("[{}]", items.join(","));
    }
    if values.iter().any(|value| value.as_bool() == Some(true)) {
        return "true".into();
    }
    values.first().map_or_else(|| "null".into(), |first| first.raw().to_owned())
}

/// The `_meta` of an answer: the servers that it leaves out, and in the modern era the
/// server info. Empty if there is neither.
pub(super) fn meta(missing: &[Arc<str>], info: Option<&str>) -> String {
    let mut members = Vec::new();
    if let Some(info) = info {
        members.push(format!(r#""{META_SERVER}":{info}"#));
    }
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|name| quote(name)).collect();
        members.push(format!(r#""sluicegate/missing":[{}]"#, names.join(",")));
    }
    if members.is_empty() {
        return String::new();
    }
    format!(r#","_meta":{{{}}}"#, members.join(","))
}

/// The gateway's own server info, when it answers for all servers.
pub(super) fn info() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(r#"{{"name":"sluicegate","title":"Sluicegate","version":"{version}"}}"#)
}

#[cfg(test)]
mod tests {
    use sluice_wire::json::{Bounds, Document};

    use super::merge;

    fn check(objects: &[&str], expected: &str) {
        let read = |text: &&str| Document::parse(*text, &Bounds::default()).unwrap();
        let documents: Vec<_> = objects.iter().map(read).collect();
        let values: Vec<_> = documents.iter().map(Document::root).collect();
        assert_eq!(merge(&values), expected);
    }

    /// Looking each name up among all others took half a minute of a thread.
    #[test]
    fn a_hundred_thousand_capabilities_are_merged() {
        let names: Vec<_> = (0..100_000).map(|number| format!(r#""x{number}":{{}}"#)).collect();
        let many = format!("{{{}}}", names.join(","));
        let bounds = Bounds {
            bytes: usize::MAX,
            members: usize::MAX,
            nodes: usize::MAX,
            ..Bounds::default()
        };
        let read = |text: &str| Document::parse(text.to_owned(), &bounds).unwrap();
        let documents = [read(&many), read(r#"{"x1":{"y":1}}"#)];
        let merged = merge(&documents.each_ref().map(Document::root));
        assert_eq!(merged, many.replace(r#""x1":{}"#, r#""x1":{"y":1}"#));
    }

    #[test]
    fn capabilities_are_merged() {
        check(&[], "{}");
        check(
            &[
                r#"{"tools":{"listChanged":false},"logging":{}}"#,
                r#"{"tools":{"listChanged":true}}"#,
            ],
            r#"{"tools":{"listChanged":true},"logging":{}}"#,
        );
        check(
            &[r#"{"x":{"a":1.0,"b":[1]},"y":false}"#, r#"{"x":{"a":2,"c":{}},"z":null}"#],
            r#"{"x":{"a":1.0,"b":[1],"c":{}},"y":false,"z":null}"#,
        );
        check(&[r#"{"x":[1,"a"]}"#, r#"{"x":["a",2]}"#], r#"{"x":[1,"a",2]}"#);
        check(&[r#"{"x":true}"#, r#"{"x":{"y":1}}"#, "[]"], r#"{"x":{"y":1}}"#);
    }
}
