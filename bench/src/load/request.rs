//! The bytes of a call. They are built once per connection; only the id changes, and it always has
//! the same number of digits.

use std::fmt::Write as _;

use crate::{era::Era, target::Target};

/// The first id, so that all ids have ten digits.
const FIRST_ID: u64 = 1_000_000_000;
/// The distance between the ids of two connections, which limits their number of calls.
const APART: u64 = 10_000_000;

/// The calls to make.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    pub(crate) era: Era,
    pub(crate) tool: String,
}

/// The repeated call of one connection.
#[derive(Debug)]
pub(super) struct Request {
    bytes: Vec<u8>,
    id_at: usize,
    id: u64,
}

impl Request {
    pub(super) fn new(calls: &Calls, target: &Target) -> Request {
        let before = r#"{"jsonrpc":"2.0","id":"#;
        let after = rest(calls);
        let headers = match calls.era {
            Era::Legacy => String::new(),
            Era::Modern => {
                format!("Mcp-Method: tools/call\r\nMcp-Name: {}\r\n", calls.tool)
            }
        };
        let body = format!("{before}{FIRST_ID}{after}");
        let mut text = head("POST", target, calls.era, &headers, Some(body.len()));
        let id_at = text.len() + before.len();
        text += &body;
        Request { bytes: text.into_bytes(), id_at, id: FIRST_ID }
    }

    /// The request for the `n`th of several connections that may share a session, in which ids must
    /// be unique.
    pub(super) fn of_connection(self, n: usize) -> Request {
        let apart = u64::try_from(n).unwrap_or_default() * APART;
        Request { id: self.id + apart, ..self }
    }

    /// The bytes of the next call, and its id.
    pub(super) fn next(&mut self) -> (&[u8], u64) {
        self.id += 1;
        let mut left = self.id;
        let digits = self.bytes.get_mut(self.id_at..self.id_at + 10).unwrap_or_default();
        for digit in digits.iter_mut().rev() {
            // The remainder is a digit, so the conversion cannot fail.
            *digit = b'0' + u8::try_from(left % 10).unwrap_or_default();
            left /= 10;
        }
        (&self.bytes, self.id)
    }
}

/// The head of an MCP request; `length` is that of the body, if there is one.
pub(crate) fn head(
    method: &str,
    target: &Target,
    era: Era,
    headers: &str,
    length: Option<usize>,
) -> String {
    let Target { address, path, token, session } = target;
    let version = era.version();
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\n{headers}"
    );
    // Writing to a string cannot fail.
    if let Some(token) = token {
        let _ = write!(text, "Authorization: Bearer {token}\r\n");
    }
    if let Some(session) = session {
        let _ = write!(text, "Mcp-Session-Id: {session}\r\n");
    }
    if let Some(length) = length {
        let _ = write!(text, "Content-Type: application/json\r\nContent-Length: {length}\r\n");
    }
    text + "\r\n"
}

/// The text after the id.
fn rest(calls: &Calls) -> String {
    let Calls { era, tool } = calls;
    let meta = match era {
        Era::Legacy => String::new(),
        Era::Modern => format!(r#","_meta":{}"#, meta(*era)),
    };
    format!(
        r#","method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"a note of the usual length, as an agent would write it into a ledger","count":3,"tags":["one","two"]}}{meta}}}}}"#
    )
}

/// The `_meta` of every modern request.
pub(crate) fn meta(era: Era) -> String {
    let version = era.version();
    format!(
        r#"{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::{Calls, Request};
    use crate::era::Era;

    #[test]
    fn every_call_has_the_next_id_and_the_length_it_states() {
        for era in [Era::Legacy, Era::Modern] {
            let target = "http://127.0.0.1:1/mcp".parse().unwrap();
            let mut request = Request::new(&Calls { era, tool: "t".into() }, &target);
            for expected in [1_000_000_001_u64, 1_000_000_002] {
                let (bytes, id) = request.next();
                let text = String::from_utf8(bytes.to_vec()).unwrap();
                let (head, body) = text.split_once("\r\n\r\n").unwrap();
                assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert_eq!((id, body["id"].as_u64()), (expected, Some(expected)));
            }
        }
    }
}
