//! Legacy clients of a modern server: their messages are translated to the modern era.
//!
//! The client's declared capabilities are encoded in the session id, so that a session needs
//! no stored state. State that changes during a session is kept in `memory`.

mod call;
mod input;
mod listen;
mod memory;
mod mirror;
mod session;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use sluice_http::{
    Speaks,
    answer::{empty, json},
    headers::{METHOD, REVISION, SESSION},
    offload,
};
use sluice_wire::{
    edit::quote,
    json::{Document, Value},
    mcp::{Era, META_SERVER, Revision},
    rpc::{Id, Message},
};

use self::{memory::Memory, mirror::Mirrors};
use super::{
    Caller, Link,
    exchange::{exchange, plain_headers, post, set},
    message::{
        BAD_PARAMS, Declared, INTERNAL, LEGACY, MODERN, UNKNOWN_METHOD, error, failure,
        modern_request, response, splice_members, unbridgeable, upstream_error, without_tasks,
    },
    response::Answer,
};

pub(super) use session::is_own_session;

/// The legacy clients of one modern server.
#[derive(Debug)]
pub(super) struct ToModern {
    link: Arc<Link>,
    memory: Memory,
    mirrors: Mirrors,
}

/// One request of a client.
#[derive(Debug)]
struct LegacyRequest {
    document: Document,
    id: Id,
    method: String,
    caller: Caller,
    /// Headers that are forwarded in either era.
    headers: HeaderMap,
    declared: Declared,
    /// The client's protocol version.
    revision: String,
}

impl ToModern {
    pub(super) fn new(link: Arc<Link>) -> ToModern {
        ToModern { link, memory: Memory::default(), mirrors: Mirrors::default() }
    }

    /// Answers a request as a legacy server does.
    pub(super) async fn answer(
        self: &Arc<Self>,
        request: Request<Bytes>,
        caller: Caller,
    ) -> Answer {
        let (parts, body) = request.into_parts();
        let Some(declared) = session::read_declared(&parts.headers) else {
            return Ok(empty(StatusCode::NOT_FOUND));
        };
        if self.memory.has_ended(&caller.key) {
            return Ok(empty(StatusCode::NOT_FOUND));
        }
        let headers = plain_headers(&parts.headers);
        match parts.method {
            Method::GET => return self.listen(headers, declared, caller).await,
            Method::DELETE => {
                if parts.headers.contains_key(SESSION) {
                    self.memory.end(&caller.key);
                }
                return Ok(empty(StatusCode::OK));
            }
            _ => {}
        }
        let revision = parts.headers.get(REVISION).map(HeaderValue::to_str);
        let revision = revision.and_then(Result::ok).unwrap_or(Revision::UNSAID.name()).to_owned();
        let Some(Ok(document)) = offload::parse(body.to_vec(), &caller.bounds).await else {
            return Ok(empty(StatusCode::BAD_REQUEST));
        };
        let (id, method) = match Message::read(&document) {
            Ok(Message::Request { id, method, .. }) => (id, method.to_owned()),
            Ok(Message::Notification { method, params }) => {
                let cancelled = params.and_then(|params| params.get("requestId"));
                if let Some(id) = cancelled.filter(|_| method == "notifications/cancelled") {
                    self.memory.cancel(&caller.key, id.raw());
                }
                return Ok(empty(StatusCode::ACCEPTED));
            }
            Ok(Message::Response { id, .. } | Message::Failure { id: Some(id), .. }) => {
                let id = id.to_json();
                self.memory.reply(&caller.key, &id, document);
                return Ok(empty(StatusCode::ACCEPTED));
            }
            Ok(Message::Failure { id: None, .. }) | Err(_) => {
                return Ok(empty(StatusCode::BAD_REQUEST));
            }
        };
        self.request(LegacyRequest { document, id, method, caller, headers, declared, revision })
            .await
    }

    async fn request(self: &Arc<Self>, asked: LegacyRequest) -> Answer {
        let id = asked.id.to_json();
        let answered = |text: String| Ok(json(StatusCode::OK, text));
        match asked.method.as_str() {
            "initialize" => self.initialize(asked).await,
            "ping" => answered(response(&id, "{}")),
            "logging/setLevel" => answered(self.set_level(&asked, &id)),
            "resources/subscribe" | "resources/unsubscribe" => {
                answered(self.subscribe(&asked, &id).await)
            }
            method if method.starts_with("tasks/") => {
                let what = unbridgeable(&format!("`{method}`"), &asked.revision, MODERN.name());
                answered(error(&id, UNKNOWN_METHOD, &what))
            }
            _ => self.call(asked).await,
        }
    }

    /// Answers `initialize` with the server's discovery result and a new session.
    async fn initialize(&self, asked: LegacyRequest) -> Answer {
        let id = asked.id.to_json();
        let params = asked.document.root().get("params");
        let declared = Declared::read(params, "capabilities", "clientInfo");
        let wanted =
            params.and_then(|params| params.get("protocolVersion")).and_then(Value::as_str);
        let revision = wanted
            .and_then(Revision::from_name)
            .filter(|revision| revision.era() == Era::Legacy)
            .unwrap_or(LEGACY);
        let mut headers = asked.headers;
        set(&mut headers, REVISION, MODERN.name());
        set(&mut headers, METHOD, "server/discover");
        let ask = format!(r#"{{"jsonrpc":"2.0","method":"server/discover","id":{id}}}"#);
        let Ok(ask) = Document::parse(ask, &asked.caller.bounds) else {
            return Ok(empty(StatusCode::BAD_REQUEST));
        };
        let body = modern_request(ask.root(), &id, &declared, None, &[]);
        let said =
            exchange(&self.link.upstream, post(headers, body), &asked.id, asked.caller.bounds)
                .await?;
        let status = said.status;
        let found = said.answer.as_ref().map(|answer| answer.root());
        let Some(result) = found.and_then(|found| found.get("result")) else {
            self.link.forget_eras();
            if let Some(said) = found.and_then(|found| found.get("error")) {
                let (text, _) = failure(said, &id, "initialize", LEGACY);
                return Ok(json(StatusCode::OK, text));
            }
            return if status.is_success() {
                let what = "its answer to `server/discover` has no result";
                Ok(json(StatusCode::OK, upstream_error(&id, what)))
            } else {
                Ok(empty(status))
            };
        };
        self.link.protocol.note_era(Era::Modern, Speaks::Yes);
        let mut answer = json(StatusCode::OK, response(&id, &introduction(result, revision)));
        if let Some(session) = session::id_for(&declared) {
            answer.headers_mut().insert(SESSION, session);
        }
        Ok(answer)
    }

    fn set_level(&self, asked: &LegacyRequest, id: &str) -> String {
        let params = asked.document.root().get("params");
        let level = params.and_then(|params| params.get("level")).and_then(Value::as_str);
        let Some(level) = level.filter(|level| super::message::severity(level).is_some()) else {
            return error(id, BAD_PARAMS, "`params.level` must be a level of logging");
        };
        self.memory.set_level(&asked.caller.key, level);
        response(id, "{}")
    }

    async fn subscribe(&self, asked: &LegacyRequest, id: &str) -> String {
        let params = asked.document.root().get("params");
        let uri = params.and_then(|params| params.get("uri")).and_then(Value::as_str);
        let Some(uri) = uri else {
            return error(id, BAD_PARAMS, "`params.uri` must be a string");
        };
        let is_wanted = asked.method == "resources/subscribe";
        if self.memory.subscribe(&asked.caller.key, uri, is_wanted).await {
            response(id, "{}")
        } else {
            error(id, INTERNAL, "this session has too many subscriptions")
        }
    }
}

/// The `initialize` result for a modern server.
fn introduction(result: Value<'_>, revision: Revision) -> String {
    let meta = result.get("_meta");
    let info = result.get("serverInfo").or_else(|| meta.and_then(|meta| meta.get(META_SERVER)));
    let info = info.map_or(r#"{"name":"","version":""}"#, Value::raw).to_owned();
    let drop = |key: &str| {
        matches!(
            key,
            "resultType"
                | "supportedVersions"
                | "ttlMs"
                | "cacheScope"
                | "capabilities"
                | "serverInfo"
                | "protocolVersion"
        )
    };
    let added = [
        ("protocolVersion", quote(revision.name())),
        ("capabilities", without_tasks(result.get("capabilities"))),
        ("serverInfo", info),
    ];
    splice_members(Some(result), drop, &added)
}
