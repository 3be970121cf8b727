//! Sessions of legacy clients: the id contains the client's capabilities and info.
//!
//! The gateway seals the id before a client sees it.

use data_encoding::BASE64URL_NOPAD;
use http::{HeaderMap, HeaderValue, Request};
use sluice_http::headers::SESSION;
use sluice_wire::json::{Bounds, Document};

use crate::message::Declared;

const PREFIX: &str = "sluicegate-bridge.";
/// The longest declaration in bytes: encoded twice, it must fit in a header.
const LONGEST: usize = 3 << 10;

/// Whether a request belongs to a session that this bridge opened.
pub(crate) fn is_own_session<B>(request: &Request<B>) -> bool {
    id(request.headers()).is_some_and(|id| id.starts_with(PREFIX))
}

fn id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION).and_then(|value| value.to_str().ok())
}

/// The session id for a client with this declaration.
pub(super) fn id_for(declared: &Declared) -> Option<HeaderValue> {
    let Declared { capabilities, client } = declared;
    let client = if client.is_empty() { "{}" } else { client };
    let whole = format!(r#"{{"capabilities":{capabilities},"clientInfo":{client}}}"#);
    let text = if whole.len() <= LONGEST { whole } else { keep_known_capabilities(capabilities) };
    HeaderValue::try_from(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(text.as_bytes()))).ok()
}

/// Only the known capabilities of a declaration, without their contents.
fn keep_known_capabilities(capabilities: &str) -> String {
    let document = Document::parse(capabilities, &Bounds::default()).ok();
    let has =
        |name: &&str| document.as_ref().is_some_and(|document| document.root().get(name).is_some());
    let known = ["sampling", "elicitation", "roots"].into_iter().filter(has);
    let members: Vec<_> = known.map(|name| format!(r#""{name}":{{}}"#)).collect();
    format!(r#"{{"capabilities":{{{}}}}}"#, members.join(","))
}

/// The declaration of a request's client: empty outside a session; `None` if the session
/// id is not one of ours.
pub(super) fn read_declared(headers: &HeaderMap) -> Option<Declared> {
    let Some(id) = id(headers) else {
        return Some(Declared::read(None, "", ""));
    };
    let bytes = BASE64URL_NOPAD.decode(id.strip_prefix(PREFIX)?.as_bytes()).ok()?;
    let document = Document::parse(bytes, &Bounds::default()).ok()?;
    Some(Declared::read(Some(document.root()), "capabilities", "clientInfo"))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::{id_for, read_declared};
    use crate::message::Declared;

    fn check(capabilities: &str, expected: &str) {
        let said =
            Declared { capabilities: capabilities.into(), client: "{\"name\":\"é\"}".into() };
        let mut headers = HeaderMap::new();
        headers.insert("mcp-session-id", id_for(&said).unwrap());
        assert_eq!(read_declared(&headers).unwrap().capabilities, expected);
    }

    #[test]
    fn a_session_id_contains_the_declaration() {
        check(r#"{"roots":{"listChanged":true}}"#, r#"{"roots":{"listChanged":true}}"#);
        let long = format!(r#"{{"sampling":{{}},"experimental":{{"x":"{}"}}}}"#, "x".repeat(4000));
        check(&long, r#"{"sampling":{}}"#);
        let mut headers = HeaderMap::new();
        assert!(read_declared(&headers).is_some());
        headers.insert("mcp-session-id", "of-another-server".parse().unwrap());
        assert!(read_declared(&headers).is_none());
    }
}
