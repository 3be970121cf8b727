//! Refusals: the one place that maps errors to JSON-RPC and HTTP.
//!
//! Each has a text for the client; details are logged where they occur. Neither contains
//! secrets, nor text of an upstream except a JSON-RPC error, which is passed on as the
//! protocol requires, and the last stderr lines of a command that failed to start.

use http::{HeaderValue, Response, StatusCode, header};
use sluice_store::StoreError;
use sluice_wire::{
    edit::quote,
    mcp::{Revision, TASKS_EXTENSION},
    rpc::Id,
};

use crate::{body::ClientBody, response, shares::Bound};

/// Why a request is refused, by whose fault it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client: its Host, or the Origin of its page, is not allowed.
    Host,
    Origin,
    /// The client: no token, or an invalid one. Holds the URL of the metadata.
    Token {
        reason: &'static str,
        metadata: String,
    },
    /// The request has come back to this gateway.
    Loop,
    UnknownServer(String),
    NotGranted(String),
    MediaType(&'static str),
    TooLarge(usize),
    /// The body is not JSON.
    Json(String),
    /// JSON that is not an accepted message, or a malformed header.
    Request(String),
    Params(String),
    /// A modern request without a member of `_meta` that every request must have.
    Meta(String),
    UnknownMethod {
        method: String,
        is_modern: bool,
    },
    /// A mirrored header that is missing or disagrees with the body.
    HeaderMismatch(String),
    UnsupportedVersion(String),
    /// A modern request about a task, from a client that does not declare tasks.
    TasksUndeclared,
    /// The client asked for discovery, but the server speaks only the legacy era.
    LegacyServer,
    /// The session does not belong to this grant on this server.
    Session,
    MethodNotAllowed,
    NotAcceptable,
    /// The policy denies a request that is not a tool call.
    Denied {
        message: String,
        decision: String,
    },
    /// The policy denies a tool call that was to become a task.
    NoTask {
        message: String,
        decision: String,
    },
    /// The policy denies a tool call. Holds what the client gets in place of the tool's
    /// result, as JSON: a result with `isError`, which the model sees.
    DeniedCall(String),
    /// The policy denies a notification. The client gets no error, as the protocol requires.
    DeniedNotification,
    /// The gateway's own failures.
    Store,
    /// The audit log has no space for the record. Holds the bound.
    NoSpace(String),
    /// A bound is reached; the text names it.
    Busy(&'static str),
    Internal,
    /// The grant or the server is at a bound.
    Bound(Bound),
    /// The upstream's failures.
    Upstream {
        reason: String,
        status: StatusCode,
    },
    /// The upstream's JSON-RPC error on a request that carried no message.
    Passed {
        status: StatusCode,
        text: String,
    },
}

/// JSON-RPC codes of our own, outside the range that the protocol reserves.
const UNAUTHORIZED: i32 = -31001;
const FORBIDDEN: i32 = -31003;
const NOT_FOUND: i32 = -31004;
const LOOP: i32 = -31008;
const TOO_MANY: i32 = -31029;
pub(crate) const DENIED: i32 = -31010;

impl Refusal {
    /// The upstream broke the protocol.
    pub(crate) fn bad_gateway(reason: impl Into<String>) -> Refusal {
        Refusal::Upstream { reason: reason.into(), status: StatusCode::BAD_GATEWAY }
    }

    /// The upstream answered with an error status. A status about the request is passed
    /// on; one about the gateway's own credential would mislead a client.
    pub(crate) fn from_status(status: StatusCode) -> Refusal {
        let reason = match status {
            StatusCode::LOOP_DETECTED => "the server's URL leads back to this gateway".into(),
            _ => format!("the server answered with status {}", status.as_u16()),
        };
        let is_passed = status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 407);
        let status = if is_passed { status } else { StatusCode::BAD_GATEWAY };
        Refusal::Upstream { reason, status }
    }

    /// The upstream took too long.
    pub(crate) fn timeout() -> Refusal {
        Refusal::late("the server did not answer in time")
    }

    /// A timeout with a specific reason.
    pub(crate) fn late(reason: impl Into<String>) -> Refusal {
        let reason = reason.into();
        Refusal::Upstream { reason, status: StatusCode::GATEWAY_TIMEOUT }
    }

    /// The store did not take a record. A refusal of the store is for the caller; a failure is
    /// for the log.
    pub(crate) fn from_store(error: &StoreError, what: &str) -> Refusal {
        if error.is_refusal() {
            // The hint is for operators.
            let text = error.to_string();
            return Refusal::NoSpace(text.lines().next().unwrap_or_default().to_owned());
        }
        tracing::error!(%error, "{what}");
        Refusal::Store
    }

    fn status(&self) -> StatusCode {
        match self {
            Refusal::Host | Refusal::Origin | Refusal::NotGranted(_) => StatusCode::FORBIDDEN,
            Refusal::Token { .. } => StatusCode::UNAUTHORIZED,
            Refusal::Loop => StatusCode::LOOP_DETECTED,
            Refusal::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Json(_)
            | Refusal::Request(_)
            | Refusal::Meta(_)
            | Refusal::HeaderMismatch(_)
            | Refusal::LegacyServer
            | Refusal::TasksUndeclared
            | Refusal::UnsupportedVersion(_) => StatusCode::BAD_REQUEST,
            Refusal::UnknownServer(_)
            | Refusal::Session
            | Refusal::UnknownMethod { is_modern: true, .. } => StatusCode::NOT_FOUND,
            Refusal::Params(_)
            | Refusal::UnknownMethod { .. }
            | Refusal::Denied { .. }
            | Refusal::NoTask { .. }
            | Refusal::DeniedCall(_) => StatusCode::OK,
            Refusal::DeniedNotification => StatusCode::ACCEPTED,
            Refusal::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Refusal::Bound(Bound { is_of_server: false, .. }) => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Store | Refusal::NoSpace(_) | Refusal::Busy(_) | Refusal::Bound(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Refusal::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Refusal::Upstream { status, .. } | Refusal::Passed { status, .. } => *status,
        }
    }

    fn code(&self) -> i32 {
        match self {
            Refusal::Token { .. } => UNAUTHORIZED,
            Refusal::Host | Refusal::Origin | Refusal::NotGranted(_) => FORBIDDEN,
            Refusal::UnknownServer(_) => NOT_FOUND,
            Refusal::Loop => LOOP,
            Refusal::Bound(_) => TOO_MANY,
            Refusal::Denied { .. }
            | Refusal::NoTask { .. }
            | Refusal::DeniedCall(_)
            | Refusal::DeniedNotification => DENIED,
            Refusal::Json(_) => -32700,
            Refusal::MediaType(_)
            | Refusal::TooLarge(_)
            | Refusal::Request(_)
            | Refusal::MethodNotAllowed
            | Refusal::NotAcceptable => -32600,
            Refusal::UnknownMethod { .. } | Refusal::LegacyServer => -32601,
            Refusal::Params(_) | Refusal::Meta(_) => -32602,
            Refusal::HeaderMismatch(_) => -32020,
            Refusal::TasksUndeclared => -32021,
            Refusal::UnsupportedVersion(_) => -32022,
            // The code that SDKs of the legacy era send and expect.
            Refusal::Session => -32001,
            Refusal::Store
            | Refusal::NoSpace(_)
            | Refusal::Busy(_)
            | Refusal::Internal
            | Refusal::Upstream { .. }
            | Refusal::Passed { .. } => -32603,
        }
    }

    fn message(&self) -> String {
        match self {
            Refusal::Host => "this Host is not served here; see `allowed_hosts`".into(),
            Refusal::Origin => {
                "pages of this Origin may not call here; see `allowed_origins`".into()
            }
            Refusal::Token { reason, .. } | Refusal::MediaType(reason) => (*reason).into(),
            Refusal::Loop => {
                "this request came through this gateway already: the URL of a server leads back here"
                    .into()
            }
            Refusal::UnknownServer(name) => format!("there is no server `{name}` here"),
            Refusal::NotGranted(name) => format!("this grant does not include server `{name}`"),
            Refusal::TooLarge(most) => format!("the body is longer than {most} bytes"),
            Refusal::Json(reason)
            | Refusal::Request(reason)
            | Refusal::Params(reason)
            | Refusal::Meta(reason)
            | Refusal::HeaderMismatch(reason) => reason.clone(),
            Refusal::UnknownMethod { method, .. } => format!("method `{method}` is not available"),
            Refusal::UnsupportedVersion(asked) => format!("unsupported protocol version `{asked}`"),
            Refusal::TasksUndeclared => "declare the tasks extension to ask for a task".into(),
            Refusal::LegacyServer => "this server speaks an older revision: initialize".into(),
            Refusal::Session => "session not found: initialize again".into(),
            Refusal::MethodNotAllowed => "this method is not for this path".into(),
            Refusal::NotAcceptable => "accept `text/event-stream` here".into(),
            Refusal::Denied { message, .. } => format!("[POLICY DENIED] {message}"),
            Refusal::NoTask { message, .. } => message.clone(),
            Refusal::DeniedCall(_) | Refusal::DeniedNotification => "[POLICY DENIED]".into(),
            Refusal::Store => {
                "the decision could not be recorded, so the request was not sent".into()
            }
            Refusal::NoSpace(bound) => format!("the request was not sent: {bound}"),
            Refusal::Busy(bound) => format!("{bound}: try again later"),
            Refusal::Bound(bound) => bound.message(),
            Refusal::Internal => "the gateway failed, and the request was not sent".into(),
            Refusal::Upstream { reason, .. } => format!("upstream: {reason}"),
            Refusal::Passed { status, .. } => Refusal::from_status(*status).message(),
        }
    }

    fn data(&self) -> Option<String> {
        match self {
            Refusal::Denied { decision, .. } | Refusal::NoTask { decision, .. } => {
                Some(decision.clone())
            }
            Refusal::Upstream { .. } | Refusal::Passed { .. } => {
                Some(r#"{"side":"upstream"}"#.into())
            }
            Refusal::Store
            | Refusal::NoSpace(_)
            | Refusal::Busy(_)
            | Refusal::Internal
            | Refusal::Loop => Some(r#"{"side":"gateway"}"#.into()),
            Refusal::Bound(Bound { name, most, .. }) => {
                Some(format!(r#"{{"side":"gateway","bound":"{name}","most":{most}}}"#))
            }
            Refusal::TasksUndeclared => Some(format!(
                r#"{{"requiredCapabilities":{{"extensions":{{"{TASKS_EXTENSION}":{{}}}}}}}}"#
            )),
            Refusal::UnsupportedVersion(asked) => {
                let supported: Vec<_> =
                    Revision::modern().map(|revision| quote(revision.name())).collect();
                Some(format!(
                    r#"{{"supported":[{}],"requested":{}}}"#,
                    supported.join(","),
                    quote(asked)
                ))
            }
            _ => None,
        }
    }

    /// The JSON-RPC error. Its id is null if the message could not be read.
    pub(crate) fn to_json(&self, id: Option<&Id>) -> String {
        let id = id.map_or_else(|| "null".into(), Id::to_json);
        let (code, message) = (self.code(), quote(&self.message()));
        let data = self.data().map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#
        )
    }

    /// The whole HTTP response.
    pub(crate) fn respond(&self, id: Option<&Id>) -> Response<ClientBody> {
        let text = match self {
            Refusal::DeniedCall(result) => return response::result(id, result),
            Refusal::DeniedNotification => return response::empty_accepted(),
            Refusal::Passed { text, .. } => text.clone(),
            _ => self.to_json(id),
        };
        let mut answer = response::json(self.status(), text);
        if let Refusal::Token { metadata, .. } = self
            && let Ok(value) =
                HeaderValue::try_from(format!("Bearer resource_metadata=\"{metadata}\""))
        {
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
        if let Refusal::Bound(bound) = self
            && let Some(seconds) = bound.retry_after()
        {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if matches!(self, Refusal::MethodNotAllowed) {
            answer
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
        }
        answer
    }
}
