//! Headers that repeat arguments. The server's list of tools says which arguments to
//! repeat.

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName};
use sluice_http::headers::{METHOD, PARAMETER_PREFIX, REVISION};
use sluice_upstream::Upstream;
use sluice_wire::{
    edit::quote,
    json::{Bounds, Document, Value},
    mcp::header_text,
    rpc::Id,
};
use tokio::time::Instant;

use crate::{
    exchange::{exchange, post, set},
    message::{Declared, MODERN, modern_request},
};

/// More pages than any legitimate list has.
const MOST_PAGES: u32 = 200;
/// How long to wait before the list is fetched again.
const PAUSE: Duration = Duration::from_secs(2);
/// A list older than this is fetched again.
const FRESH: Duration = Duration::from_mins(5);
/// How deep schemas are searched.
const DEEPEST: usize = 16;

/// A header, and the path to the argument it repeats.
type Mirrored = (String, Vec<String>);

/// The arguments of each tool that must be repeated in headers.
type Tools = HashMap<String, Vec<Mirrored>>;

/// The known tools of one server.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    /// Locked while the list is fetched.
    known: tokio::sync::Mutex<Option<(Instant, Arc<Tools>)>>,
}

impl Mirrors {
    /// Sets the headers that repeat arguments of a call.
    pub(super) async fn set(
        &self,
        upstream: &Upstream,
        plain: &HeaderMap,
        params: Option<Value<'_>>,
        headers: &mut HeaderMap,
        bounds: Bounds,
    ) {
        let named = |name: &str| params.and_then(|params| params.get(name));
        let Some(tool) = named("name").and_then(Value::as_str) else { return };
        let tools = self.tools(upstream, plain, tool, bounds).await;
        for (header, way) in tools.get(tool).into_iter().flatten() {
            let argument = way
                .iter()
                .try_fold(named("arguments"), |value, step| value.map(|value| value.get(step)));
            let text = argument.flatten().and_then(scalar);
            if let (Some(text), Ok(name)) = (text, HeaderName::try_from(header)) {
                set(headers, name, &header_text(text));
            }
        }
    }

    /// Invalidates the known tools.
    pub(super) async fn forget(&self) {
        *self.known.lock().await = None;
    }

    async fn tools(
        &self,
        upstream: &Upstream,
        plain: &HeaderMap,
        tool: &str,
        bounds: Bounds,
    ) -> Arc<Tools> {
        let mut known = self.known.lock().await;
        if let Some((learnt, tools)) = &*known {
            let age = learnt.elapsed();
            if age < PAUSE || age < FRESH && tools.contains_key(tool) {
                return Arc::clone(tools);
            }
        }
        let tools = Arc::new(fetch_tools(upstream, plain, bounds).await.unwrap_or_default());
        *known = Some((Instant::now(), Arc::clone(&tools)));
        tools
    }
}

/// An argument's value as header text.
fn scalar(value: Value<'_>) -> Option<&str> {
    value.as_str().or_else(|| value.as_number()).or_else(|| value.as_bool().map(|_| value.raw()))
}

async fn fetch_tools(upstream: &Upstream, plain: &HeaderMap, bounds: Bounds) -> Option<Tools> {
    let mut headers = plain.clone();
    set(&mut headers, REVISION, MODERN.name());
    set(&mut headers, METHOD, "tools/list");
    let ask = r#"{"jsonrpc":"2.0","method":"tools/list"}"#;
    let ask = Document::parse(ask, &bounds).ok()?;
    let (mut tools, mut cursor) = (HashMap::new(), Vec::new());
    for page in 0..MOST_PAGES {
        let id = page.to_string();
        let body = modern_request(ask.root(), &id, &Declared::gateway(), None, &cursor);
        let request = post(headers.clone(), body);
        let page = exchange(upstream, request, &Id::Integer(id), bounds).await.ok()?.result()?;
        let result = page.root().get("result")?;
        for tool in result.get("tools")?.items()? {
            let mut found = Vec::new();
            properties(tool.get("inputSchema"), &mut Vec::new(), &mut found);
            if let Some(name) = tool.get("name").and_then(Value::as_str) {
                tools.insert(name.to_owned(), found);
            }
        }
        match result.get("nextCursor").and_then(Value::as_str) {
            Some(next) => cursor = vec![("cursor", quote(next))],
            None => break,
        }
    }
    Some(tools)
}

/// Finds the properties to repeat, including nested ones.
fn properties(schema: Option<Value<'_>>, way: &mut Vec<String>, found: &mut Vec<Mirrored>) {
    if way.len() >= DEEPEST {
        return;
    }
    let members = schema.and_then(|schema| schema.get("properties")).and_then(Value::members);
    for (name, property) in members.into_iter().flatten() {
        way.push(name.as_str().unwrap_or_default().to_owned());
        if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str) {
            found.push((format!("{PARAMETER_PREFIX}{}", header.to_ascii_lowercase()), way.clone()));
        }
        properties(Some(property), way, found);
        way.pop();
    }
}

#[cfg(test)]
mod tests {
    use sluice_wire::json::{Bounds, Document};

    #[test]
    fn repeated_arguments_are_found_at_any_depth() {
        let schema = r#"{"properties":{"a":{"x-mcp-header":"Region"},"b":{"properties":{"c":{"x-mcp-header":"C"}}},"d":{}}}"#;
        let document = Document::parse(schema, &Bounds::default()).unwrap();
        let mut found = Vec::new();
        super::properties(Some(document.root()), &mut Vec::new(), &mut found);
        let way = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                ("mcp-param-region".to_owned(), way(&["a"])),
                ("mcp-param-c".to_owned(), way(&["b", "c"]))
            ]
        );
    }
}
