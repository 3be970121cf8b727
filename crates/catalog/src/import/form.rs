//! The file formats that can be imported.
//!
//! - A `tools/list` result, with or without its JSON-RPC envelope, or the bare list
//!   of tools.
//! - `{server, source, tools}`, the format of the definitions from which the shipped
//!   index is built.
//! - `server.json` of the official registry, one, or a list of them as the registry
//!   returns it; these contain no tools.

use sluice_wire::json::{Kind, Value};

/// The part of a document about one server.
#[derive(Debug)]
pub(super) enum ServerDocument<'d> {
    Tools {
        /// Its name, if the document contains it.
        server: Option<&'d str>,
        source: Option<&'d str>,
        tools: Vec<Value<'d>>,
        /// Whether the document is one page of a longer list.
        goes_on: bool,
    },
    Listing(Value<'d>),
    /// An entry that was superseded by a newer one of the same registry.
    Older,
}

/// The error for a document in an unknown format.
const UNKNOWN: &str = "it is neither an answer to `tools/list`, nor a registry's `server.json`, nor `{\"server\", \"source\", \"tools\"}`";

/// The servers of a document.
pub(super) fn forms(root: Value<'_>) -> Result<Vec<ServerDocument<'_>>, String> {
    if let Some(items) = root.items() {
        let items: Vec<Value<'_>> = items.collect();
        let is_listing = items.first().is_some_and(|first| is_listing(*first) || wraps(*first));
        return if is_listing {
            Ok(items.into_iter().map(listing).collect())
        } else {
            tools(root, root)
        };
    }
    if root.kind() != Kind::Object {
        return Err(UNKNOWN.into());
    }
    if let Some(servers) = root.get("servers").and_then(Value::items) {
        return Ok(servers.map(listing).collect());
    }
    let result = root.get("result").unwrap_or(root);
    match result.get("tools") {
        Some(list) => tools(list, root),
        None if wraps(root) || is_listing(root) => Ok(vec![listing(root)]),
        None if root.get("server").is_some() => {
            Err("it has a `server` and no list of `tools`".into())
        }
        None => Err(UNKNOWN.into()),
    }
}

fn tools<'d>(list: Value<'d>, root: Value<'d>) -> Result<Vec<ServerDocument<'d>>, String> {
    let text = |key| root.get(key).and_then(Value::as_str);
    let tools: Vec<Value<'d>> = list.items().ok_or("its `tools` is not a list")?.collect();
    let result = root.get("result").unwrap_or(root);
    let goes_on = result.get("nextCursor").is_some_and(|cursor| !cursor.is_null());
    Ok(vec![ServerDocument::Tools {
        server: text("server"),
        source: text("source"),
        tools,
        goes_on,
    }])
}

/// Whether it is an entry of the registry's list, which wraps the server.
fn wraps(value: Value<'_>) -> bool {
    value.get("server").is_some_and(|server| server.kind() == Kind::Object)
}

fn is_listing(value: Value<'_>) -> bool {
    let has = |key: &str| value.get(key).is_some();
    has("name")
        && !has("inputSchema")
        && ["packages", "remotes", "repository", "version"].into_iter().any(has)
}

fn listing(entry: Value<'_>) -> ServerDocument<'_> {
    let official = |value: Value<'_>| {
        let is_latest = value.get("_meta").and_then(|meta| {
            meta.members()?.find_map(|(_, of)| of.get("isLatest").and_then(Value::as_bool))
        });
        is_latest == Some(false)
    };
    let server = entry.get("server").unwrap_or(entry);
    if official(entry) || official(server) {
        ServerDocument::Older
    } else {
        ServerDocument::Listing(server)
    }
}
