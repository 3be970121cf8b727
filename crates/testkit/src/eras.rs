//! Two complete test servers, each of which supports one era only and refuses the
//! other as real servers do.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sluice_wire::json::{Bounds, Document, Value};
use tokio::sync::mpsc::UnboundedSender;

use crate::upstream::{Recorded, Reply};

const TOOLS: &str = r#"[{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}},"x-unknown":1.50},{"name":"ask"},{"name":"aside"},{"name":"slow"},{"name":"talk"},{"name":"task"},{"name":"browse"}]"#;
const CAPABILITIES: &str = r#""capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{},"x-unknown":{}}"#;
const CONTENT: &str = r#""content":[{"type":"text","text":"done"}],"x-unknown":1.50"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1.0}}"#;
const WISH: &str = r#""method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}"#;

/// A stream that somebody listens to.
type Stream = UnboundedSender<String>;

/// A server of 2026-07-28 and nothing else.
#[derive(Debug, Clone, Default)]
pub struct ModernOnly {
    state: Arc<Mutex<State>>,
}

/// A server of 2025-11-25 and nothing else.
#[derive(Debug, Clone, Default)]
pub struct LegacyOnly {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    sessions: u32,
    /// Sessions that were begun and not forgotten.
    known: Vec<String>,
    /// Streams of news, each with its session.
    streams: Vec<(String, Stream)>,
    /// Pending calls, by the id of the request they wait for.
    waiting: HashMap<String, (String, Stream)>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn message(request: &Recorded) -> Option<Document> {
    Document::parse(request.body.to_vec(), &Bounds::default()).ok()
}

fn parameter(request: &Recorded, way: &[&str]) -> Option<String> {
    let document = message(request)?;
    let value = way.iter().try_fold(document.root().get("params")?, |value, step| value.get(step));
    value.map(|value| value.as_str().map_or_else(|| value.raw().to_owned(), str::to_owned))
}

fn failure(request: &Recorded, status: u16, code: i32) -> Reply {
    let id = request.rpc_id();
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"refused"}}}}"#);
    Reply::new(status, "application/json", body)
}

fn answer(id: &str, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members}}}}}"#)
}

/// The capabilities of a server of either era.
fn members(request: &Recorded, method: &str) -> Option<String> {
    Some(match method {
        "tools/list" => format!(r#""tools":{TOOLS}"#),
        "resources/list" => r#""resources":[{"uri":"a:b","name":"b"}]"#.into(),
        "resources/templates/list" => {
            r#""resourceTemplates":[{"uriTemplate":"a:{x}","name":"x"}]"#.into()
        }
        "resources/read" if parameter(request, &["uri"]).as_deref() == Some("a:b") => {
            r#""contents":[{"uri":"a:b","text":"t"}]"#.into()
        }
        "prompts/list" => r#""prompts":[{"name":"p"}]"#.into(),
        "prompts/get" => r#""messages":[]"#.into(),
        "completion/complete" => r#""completion":{"values":["v"]}"#.into(),
        "tools/call" => CONTENT.into(),
        _ => return None,
    })
}

/// A log notification.
fn log_message(level: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":"{level}"}}}}"#
    )
}

impl ModernOnly {
    /// Sends a notification to all open streams.
    pub fn announce(&self, method: &str, params: &str) {
        say(
            &lock(&self.state).streams,
            method,
            params,
            r#","_meta":{"io.modelcontextprotocol/subscriptionId":"stream"}"#,
        );
    }

    /// How many listen.
    pub fn listeners(&self) -> usize {
        let mut state = lock(&self.state);
        state.streams.retain(|(_, stream)| !stream.is_closed());
        state.streams.len()
    }

    /// How many calls of `slow` are waited for.
    pub fn slow_calls(&self) -> usize {
        lock(&self.state).waiting.values().filter(|(_, stream)| !stream.is_closed()).count()
    }

    pub fn reply(&self, request: &Recorded) -> Reply {
        const META: &str = "io.modelcontextprotocol/";
        if request.method != "POST" {
            return Reply::empty(405);
        }
        let method = request.rpc_method().unwrap_or_default();
        let said = parameter(request, &["_meta", &format!("{META}protocolVersion")]);
        let has_all = request.header("mcp-protocol-version") == Some("2026-07-28")
            && said.as_deref() == Some("2026-07-28")
            && parameter(request, &["_meta", &format!("{META}clientCapabilities")]).is_some()
            && request.header("mcp-method") == Some(&method)
            && request.header("mcp-session-id").is_none();
        let region = parameter(request, &["arguments", "region"]);
        if !has_all || request.header("mcp-param-region").map(str::to_owned) != region {
            return failure(request, 400, -32020);
        }
        match (method.as_str(), parameter(request, &["name"]).as_deref()) {
            ("server/discover", _) => Reply::result(
                request,
                &format!(
                    r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],{CAPABILITIES},"instructions":"be kind","ttlMs":5,"cacheScope":"public","_meta":{{"{META}serverInfo":{{"name":"modern","version":"1"}}}}}}"#
                ),
            ),
            ("subscriptions/listen", _) => self.answer_listen(request),
            ("tools/call", Some(tool)) => self.answer_call(request, tool),
            ("resources/read", _) if members(request, &method).is_none() => {
                failure(request, 400, -32602)
            }
            (method, _) => match members(request, method) {
                Some(members) => Reply::result(
                    request,
                    &format!(
                        r#"{{"resultType":"complete",{members},"ttlMs":5,"cacheScope":"public"}}"#
                    ),
                ),
                None => failure(request, 404, -32601),
            },
        }
    }

    fn answer_listen(&self, request: &Recorded) -> Reply {
        let (reply, stream) = Reply::live_stream();
        let wish = parameter(request, &["notifications"]).unwrap_or_default();
        let _ = stream.send(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{wish}}}}}"#
        ));
        lock(&self.state).streams.push((String::new(), stream));
        reply
    }

    fn answer_call(&self, request: &Recorded, tool: &str) -> Reply {
        let id = request.rpc_id();
        let done = format!(r#""resultType":"complete",{CONTENT}"#);
        match tool {
            "ask" => match parameter(request, &["inputResponses", "who", "action"]) {
                Some(action) if parameter(request, &["requestState"]).as_deref() == Some("s") => {
                    let told = format!(r#""resultType":"complete","content":[],"told":"{action}""#);
                    Reply::json(answer(&id, &told))
                }
                _ => Reply::result(
                    request,
                    &format!(
                        r#"{{"resultType":"input_required","inputRequests":{{"who":{{{WISH}}}}},"requestState":"s"}}"#
                    ),
                ),
            },
            "slow" => {
                let (reply, stream) = Reply::live_stream();
                let _ = stream.send(PROGRESS.into());
                lock(&self.state).waiting.insert(id.clone(), (id, stream));
                reply
            }
            "talk" => {
                let (reply, stream) = Reply::live_stream();
                let level = parameter(request, &["_meta", "io.modelcontextprotocol/logLevel"]);
                let logged = level.map(|level| log_message(&level));
                for said in [PROGRESS.into()].into_iter().chain(logged).chain([answer(&id, &done)])
                {
                    let _ = stream.send(said);
                }
                reply
            }
            "task" => Reply::result(request, r#"{"resultType":"task","task":{"taskId":"t"}}"#),
            _ => Reply::json(answer(&id, &done)),
        }
    }
}

fn say(streams: &[(String, Stream)], method: &str, params: &str, meta: &str) {
    for (_, stream) in streams {
        let _ = stream.send(format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{params}{meta}}}}}"#
        ));
    }
}

impl LegacyOnly {
    /// Sends a notification to all open streams.
    pub fn announce(&self, method: &str, params: &str) {
        say(&lock(&self.state).streams, method, params, "");
    }

    /// Sends a message on the streams of all sessions.
    pub fn say(&self, message: &str) {
        for (_, stream) in &lock(&self.state).streams {
            let _ = stream.send(message.to_owned());
        }
    }

    /// How many listen.
    pub fn listeners(&self) -> usize {
        let mut state = lock(&self.state);
        state.streams.retain(|(_, stream)| !stream.is_closed());
        state.streams.len()
    }

    /// Knows no session any more.
    pub fn forget_sessions(&self) {
        lock(&self.state).known.clear();
    }

    pub fn reply(&self, request: &Recorded) -> Reply {
        let method = request.rpc_method().unwrap_or_default();
        if method == "initialize" {
            return self.answer_initialize(request);
        }
        match request.header("mcp-session-id") {
            None => return failure(request, 400, -32000),
            Some(id) if !lock(&self.state).known.iter().any(|known| known == id) => {
                return failure(request, 404, -32001);
            }
            Some(_) => {}
        }
        match request.method.as_str() {
            "GET" => {
                let (reply, stream) = Reply::live_stream();
                let session = request.header("mcp-session-id").unwrap_or_default().to_owned();
                lock(&self.state).streams.push((session, stream));
                return reply;
            }
            "DELETE" => return Reply::empty(200),
            _ => {}
        }
        match (method.as_str(), parameter(request, &["name"]).as_deref()) {
            ("", _) => self.take_reply(request),
            (method, _) if method.starts_with("notifications/") => Reply::empty(202),
            ("tools/call", Some(tool)) => self.answer_call(request, tool),
            ("resources/read", _) if members(request, &method).is_none() => {
                failure(request, 200, -32002)
            }
            ("ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe", _) => {
                Reply::result(request, "{}")
            }
            (method, _) => match members(request, method) {
                Some(members) => Reply::result(request, &format!("{{{members}}}")),
                None => failure(request, 200, -32601),
            },
        }
    }

    fn answer_initialize(&self, request: &Recorded) -> Reply {
        let mut state = lock(&self.state);
        state.sessions += 1;
        let id = format!("session-{}", state.sessions);
        state.known.push(id.clone());
        let members = format!(
            r#""protocolVersion":"2025-11-25",{CAPABILITIES},"serverInfo":{{"name":"legacy","version":"1"}},"instructions":"be kind""#
        );
        Reply::json(answer(&request.rpc_id(), &members)).with_header("mcp-session-id", &id)
    }

    fn answer_call(&self, request: &Recorded, tool: &str) -> Reply {
        let id = request.rpc_id();
        match tool {
            "ask" | "aside" | "aside-json" | "slow" => {
                let (reply, stream) =
                    if tool == "aside-json" { Reply::later() } else { Reply::live_stream() };
                let own = format!("\"wish-{id}\"");
                let wish = format!(r#"{{"jsonrpc":"2.0","id":{own},{WISH}}}"#);
                let mut state = lock(&self.state);
                let session = request.header("mcp-session-id");
                let _ = match tool {
                    "ask" => stream.send(wish),
                    "slow" => stream.send(PROGRESS.into()),
                    _ => {
                        let of = |(id, stream): &&(String, Stream)| {
                            Some(id.as_str()) == session && !stream.is_closed()
                        };
                        let aside = state.streams.iter().find(of);
                        aside.map_or(Ok(()), |(_, aside)| aside.send(wish))
                    }
                };
                state.waiting.insert(own, (id, stream));
                reply
            }
            "talk" => {
                let (reply, stream) = Reply::live_stream();
                let ping = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;
                for said in [
                    PROGRESS,
                    &log_message("debug"),
                    &log_message("error"),
                    ping,
                    &answer(&id, CONTENT),
                ] {
                    let _ = stream.send(said.to_owned());
                }
                reply
            }
            "task" => Reply::json(answer(&id, r#""task":{"taskId":"t","status":"working"}"#)),
            "browse" => Reply::json(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32042,"message":"go","data":{{"elicitations":[{{"mode":"url","elicitationId":"e","url":"https://example.com","message":"go"}}]}}}}}}"#
            )),
            _ => Reply::json(answer(&id, CONTENT)),
        }
    }

    /// Takes a client's answer, and finishes the call that waited for it.
    fn take_reply(&self, request: &Recorded) -> Reply {
        let waiting = lock(&self.state).waiting.remove(&request.rpc_id());
        if let Some((id, stream)) = waiting {
            let document = message(request);
            let root = document.as_ref().map(Document::root);
            let result = root.and_then(|root| root.get("result")).map_or("null", Value::raw);
            let _ = stream.send(answer(&id, &format!(r#""content":[],"told":{result}"#)));
        }
        Reply::empty(202)
    }
}
