//! Errors in a request, as JSON-RPC errors with their HTTP status.

use std::fmt::Display;

use http::StatusCode;
use sluice_wire::{
    json::{Quoted, Refusal},
    mcp::{Era, Revision},
    rpc::Id,
};

/// An error that is answered instead of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: StatusCode,
    code: i32,
    message: String,
    /// One JSON value.
    data: Option<String>,
}

impl Fault {
    fn new(status: StatusCode, code: i32, message: String) -> Self {
        Fault { status, code, message, data: None }
    }

    /// The body is not valid and unambiguous JSON.
    pub(super) fn unreadable(refusal: &Refusal) -> Self {
        Fault::new(StatusCode::BAD_REQUEST, -32700, refusal.to_string())
    }

    /// The body is JSON, but not a message that this server accepts.
    pub(super) fn invalid(problem: &dyn Display) -> Self {
        Fault::new(StatusCode::BAD_REQUEST, -32600, problem.to_string())
    }

    /// A modern request lacks a required part.
    pub(super) fn unsaid(problem: String) -> Self {
        Fault::new(StatusCode::BAD_REQUEST, -32602, problem)
    }

    /// A method's own parameters are wrong. The HTTP status is still a success, because the message
    /// itself was valid.
    pub(super) fn params(problem: &dyn Display) -> Self {
        Fault::new(StatusCode::OK, -32602, problem.to_string())
    }

    /// The protocol version, or this server, does not have this method.
    pub(super) fn method(name: &str, era: Era) -> Self {
        let status = match era {
            Era::Legacy => StatusCode::OK,
            Era::Modern => StatusCode::NOT_FOUND,
        };
        Fault::new(status, -32601, format!("unknown method `{name}`"))
    }

    /// A header is missing, repeated, or differs from the body.
    pub(super) fn header(problem: String) -> Self {
        Fault::new(StatusCode::BAD_REQUEST, -32020, problem)
    }

    /// A protocol version that this server does not support in this form.
    pub(super) fn version(requested: &str) -> Self {
        let message = format!("protocol version `{requested}` is not supported");
        let supported = modern_versions();
        let requested = Quoted(requested);
        let data = format!("{{\"supported\":{supported},\"requested\":{requested}}}");
        let data = Some(data);
        Fault { data, ..Fault::new(StatusCode::BAD_REQUEST, -32022, message) }
    }

    /// The client has cancelled the request. It expects no answer, but HTTP requires one.
    pub(super) fn cancellation() -> Self {
        Fault::new(StatusCode::OK, -32800, "the request was cancelled".into())
    }

    /// The client has too many concurrent calls.
    pub(super) fn busy(most: usize) -> Self {
        let message = format!("{most} calls are under way already");
        Fault::new(StatusCode::OK, -32603, message)
    }

    /// The error response to the request with this id. Without an id the member is left out,
    /// because MCP does not allow `null` there.
    pub(super) fn body(&self, id: Option<&Id>) -> String {
        let id = id.map(|id| format!("\"id\":{},", id_text(id))).unwrap_or_default();
        let data = self.data.as_ref().map(|data| format!(",\"data\":{data}")).unwrap_or_default();
        let (code, message) = (self.code, Quoted(&self.message));
        format!(
            "{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":{code},\"message\":{message}{data}}}}}"
        )
    }
}

/// An id as JSON, with its original type.
fn id_text(id: &Id) -> String {
    match id {
        Id::Integer(text) => text.clone(),
        Id::String(text) => Quoted(text).to_string(),
    }
}

/// The response with a result.
pub(super) fn response(id: &Id, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", id_text(id))
}

/// The protocol versions that a request may name in its `_meta`, as a JSON list. Legacy versions
/// are not included: `initialize` negotiates those.
pub(super) fn modern_versions() -> String {
    let modern = Revision::ALL.into_iter().rev().filter(|revision| revision.era() == Era::Modern);
    let names: Vec<String> = modern.map(|revision| Quoted(revision.name()).to_string()).collect();
    format!("[{}]", names.join(","))
}
