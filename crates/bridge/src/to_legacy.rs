//! Modern clients of a legacy server: their messages are translated to the legacy era.
//!
//! Each caller, together with the capabilities it declares, has its own session with the
//! server. Requests in that session have ids that the bridge assigns.

mod call;
mod dispatch;
mod in_flight;
mod listen;
mod refusals;
mod server_request;
mod session;
mod session_stream;
mod suspended;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use sluice_http::{
    answer::{empty, json},
    offload,
};
use sluice_wire::{
    edit::quote,
    json::{Document, Value},
    mcp::{META_CAPABILITIES, META_CLIENT, META_LEVEL, META_SERVER},
    rpc::{Id, Message},
};

use self::{
    session::{OpenError, Session, Sessions},
    suspended::Suspensions,
};
use super::{
    Caller, Link,
    exchange::plain_headers,
    message::{
        BAD_PARAMS, Declared, LEGACY, MODERN, UNKNOWN_METHOD, error, response, severity,
        splice_members, unbridgeable, unkept, upstream_error, without_tasks,
    },
    response::Answer,
};

/// The modern clients of one legacy server.
#[derive(Debug)]
pub(super) struct ToLegacy {
    link: Arc<Link>,
    sessions: Arc<Sessions>,
    suspensions: Arc<Suspensions>,
}

/// One request of a client.
#[derive(Debug)]
struct ModernRequest {
    document: Document,
    id: Id,
    method: String,
    caller: Caller,
    /// Headers that are forwarded in either era.
    headers: HeaderMap,
    declared: Declared,
    /// The lowest level of log messages that the client wants.
    level: Option<u8>,
}

impl ModernRequest {
    /// The client's progress token, as JSON.
    fn progress_token(&self) -> Option<String> {
        let meta = self.document.root().get("params")?.get("_meta")?;
        meta.get("progressToken").map(|token| token.raw().to_owned())
    }
}

impl ToLegacy {
    pub(super) fn new(link: Arc<Link>) -> ToLegacy {
        ToLegacy {
            sessions: Arc::new(Sessions::new(Arc::clone(&link))),
            suspensions: Arc::new(Suspensions::default()),
            link,
        }
    }

    /// Answers a request as a modern server does.
    pub(super) async fn answer(
        self: &Arc<Self>,
        request: Request<Bytes>,
        caller: Caller,
    ) -> Answer {
        let (parts, body) = request.into_parts();
        let Some(Ok(document)) = offload::parse(body.to_vec(), &caller.bounds).await else {
            return Ok(empty(StatusCode::BAD_REQUEST));
        };
        let (id, method) = match Message::read(&document) {
            Ok(Message::Request { id, method, .. }) => (id, method.to_owned()),
            Ok(Message::Notification { .. }) => return Ok(empty(StatusCode::ACCEPTED)),
            _ => return Ok(empty(StatusCode::BAD_REQUEST)),
        };
        let meta = document.root().get("params").and_then(|params| params.get("_meta"));
        let capabilities = meta.and_then(|meta| meta.get(META_CAPABILITIES));
        if capabilities.and_then(Value::members).is_none() {
            let what = format!("`_meta[\"{META_CAPABILITIES}\"]` must be an object");
            return Ok(json(StatusCode::BAD_REQUEST, error(&id.to_json(), BAD_PARAMS, &what)));
        }
        let declared = Declared::read(meta, META_CAPABILITIES, META_CLIENT);
        let level = meta.and_then(|meta| meta.get(META_LEVEL)).and_then(Value::as_str);
        let level = level.and_then(severity);
        let headers = plain_headers(&parts.headers);
        let asked = ModernRequest { document, id, method, caller, headers, declared, level };
        match asked.method.as_str() {
            "server/discover" => self.discover(&asked).await,
            "subscriptions/listen" => self.listen(asked).await,
            method if method.starts_with("tasks/") => {
                let what = unbridgeable(&format!("`{method}`"), MODERN.name(), LEGACY.name());
                let text = error(&asked.id.to_json(), UNKNOWN_METHOD, &what);
                Ok(json(StatusCode::NOT_FOUND, text))
            }
            _ => self.call(asked).await,
        }
    }

    /// The key of the session that a request belongs to.
    fn session_key(&self, asked: &ModernRequest) -> String {
        if self.link.has_one_client() {
            return String::new();
        }
        let Declared { capabilities, client } = &asked.declared;
        format!("{}\0{capabilities}\0{client}", asked.caller.key)
    }

    /// The caller's session with the server.
    async fn session(&self, asked: &ModernRequest) -> Result<Arc<Session>, OpenError> {
        let (key, bounds) = (self.session_key(asked), asked.caller.bounds);
        let caller = &asked.caller.key;
        self.sessions.get(caller, &key, &asked.headers, &asked.declared, bounds).await
    }

    /// Answers discovery with the server's answer to `initialize`.
    async fn discover(&self, asked: &ModernRequest) -> Answer {
        let session = match self.session(asked).await {
            Ok(session) => session,
            Err(error) => return refuse_open(&asked.id.to_json(), error),
        };
        let result = session.introduction.root().get("result");
        let text = response(&asked.id.to_json(), &introduction(result));
        Ok(json(StatusCode::OK, text))
    }
}

/// The answer to a server request that no client can answer.
fn refuse_server_request(id: &str, method: &str) -> String {
    let revision = LEGACY.name();
    let what = unbridgeable(&format!("`{method}`"), MODERN.name(), revision);
    error(id, UNKNOWN_METHOD, &what)
}

/// The answer to a client when no session can be opened with the server.
fn refuse_open(id: &str, error: OpenError) -> Answer {
    match error {
        OpenError::Send(error) => Err(error),
        OpenError::Status(status) => Ok(empty(status)),
        OpenError::Refused => {
            let (modern, legacy) = (MODERN.name(), LEGACY.name());
            let what = format!("it speaks no {modern}, and refuses `initialize` of {legacy}");
            Ok(json(StatusCode::OK, upstream_error(id, &what)))
        }
    }
}

/// The `server/discover` result for an initialized server.
fn introduction(result: Option<Value<'_>>) -> String {
    let of = |name: &str| result.and_then(|result| result.get(name));
    let info = of("serverInfo").map_or("{}", Value::raw).to_owned();
    let meta = splice_members(of("_meta"), |key| key == META_SERVER, &[(META_SERVER, info)]);
    let mut added = vec![
        ("supportedVersions", format!("[{}]", quote(MODERN.name()))),
        ("capabilities", without_tasks(of("capabilities"))),
        ("resultType", quote("complete")),
        ("_meta", meta),
    ];
    added.extend(unkept());
    let drop = |key: &str| {
        key == "protocolVersion"
            || key == "serverInfo"
            || added.iter().any(|(name, _)| *name == key)
    };
    splice_members(result, drop, &added)
}
