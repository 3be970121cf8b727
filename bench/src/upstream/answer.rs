//! The upstream's answers. Everything but the id is built once.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hyper::header::HeaderValue;

use super::{body::Reply, tool};
use crate::{era::Era, load::MARK};

/// Answers up to this size are written in one piece.
const SMALL: usize = 4096;

/// The answers of one upstream.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) era: Era,
    pub(super) sse: bool,
    call: Bytes,
    list: Bytes,
    sessions: AtomicU64,
}

impl Answers {
    pub(super) fn new(era: Era, size: usize, tools: usize, sse: bool) -> Answers {
        Answers {
            era,
            sse,
            call: Bytes::from(call(era, size)),
            list: Bytes::from(list(era, tools)),
            sessions: AtomicU64::new(0),
        }
    }

    pub(super) fn call(&self, id: &[u8]) -> Reply {
        if self.sse {
            return Reply::in_chunks([
                head(b"event: message\ndata: ", id),
                self.call.clone(),
                Bytes::from("\n\n"),
            ]);
        }
        answer(id, self.call.clone())
    }

    pub(super) fn list(&self, id: &[u8]) -> Reply {
        answer(id, self.list.clone())
    }

    pub(super) fn initialize(&self, id: &[u8]) -> Reply {
        let version = self.era.version();
        let result = format!(
            r#""result":{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"bench","version":"1"}}}}}}"#
        );
        answer(id, Bytes::from(result))
    }

    pub(super) fn discover(&self, id: &[u8]) -> Reply {
        let version = self.era.version();
        let result = format!(
            r#""result":{{"resultType":"complete","supportedVersions":["{version}"],"capabilities":{{"tools":{{"listChanged":true}}}},"ttlMs":60000,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"bench","version":"1"}}}}}}}}"#
        );
        answer(id, Bytes::from(result))
    }

    /// A new session id for each client.
    pub(super) fn session(&self) -> HeaderValue {
        HeaderValue::from(self.sessions.fetch_add(1, Ordering::Relaxed))
    }
}

/// The stream of a subscription, which starts with an acknowledgement.
pub(super) fn acknowledge(id: &[u8]) -> Reply {
    let id = String::from_utf8_lossy(id);
    let event = format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}},\"notifications\":{{\"toolsListChanged\":true}}}}}}\n\n"
    );
    Reply::open(Bytes::from(event))
}

pub(super) fn pong(id: &[u8]) -> Reply {
    answer(id, Bytes::from_static(b"\"result\":{}}"))
}

pub(super) fn unknown(id: &[u8]) -> Reply {
    let error = br#""error":{"code":-32601,"message":"method not found"}}"#;
    answer(id, Bytes::from_static(error))
}

/// The part before the constant rest.
fn head(before: &[u8], id: &[u8]) -> Bytes {
    Bytes::from([before, br#"{"jsonrpc":"2.0","id":"#, id, b","].concat())
}

fn answer(id: &[u8], rest: Bytes) -> Reply {
    let head = head(b"", id);
    if rest.len() > SMALL {
        return Reply::whole([head, rest, Bytes::new()]);
    }
    let all = Bytes::from([head.as_ref(), rest.as_ref()].concat());
    Reply::whole([all, Bytes::new(), Bytes::new()])
}

/// A tool's result, padded to the requested size.
fn call(era: Era, size: usize) -> String {
    let kind = match era {
        Era::Legacy => "",
        Era::Modern => r#""resultType":"complete","#,
    };
    let frame = 120 + kind.len();
    let filling = "x".repeat(size.saturating_sub(frame));
    format!(
        r#""result":{{{kind}"content":[{{"type":"text","text":"{MARK} {filling}"}}],"isError":false}}}}"#
    )
}

fn list(era: Era, tools: usize) -> String {
    let entries: Vec<_> = (0..tools)
        .map(|n| {
            let name = tool(n);
            format!(
                r#"{{"name":"{name}","description":"Adds a note to a ledger of the benchmark.","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string"}},"count":{{"type":"integer"}}}}}},"annotations":{{"readOnlyHint":true}}}}"#
            )
        })
        .collect();
    let caching = match era {
        Era::Legacy => "",
        Era::Modern => r#""resultType":"complete","ttlMs":60000,"cacheScope":"public","#,
    };
    format!(r#""result":{{{caching}"tools":[{}]}}}}"#, entries.join(","))
}
