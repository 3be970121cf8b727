//! MCP servers that run inside this process, behind one trait.
//!
//! [`answer`] speaks streamable HTTP for them, in both eras and without
//! sessions, so that the gateway treats a built-in server like a remote one.
//! Who may connect, from which origin and with which token, is the listener's
//! business and not looked at here.

mod fault;
mod mirror;
mod serve;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, pin::Pin};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use sluice_wire::{
    json::{Bounds, Document, Quoted, Value},
    rpc::{Id, Message},
};

use fault::Fault;

/// A server that answers calls within this process.
///
/// Its tools are the same for everyone and for as long as it runs.
pub trait Builtin: Send + Sync + 'static {
    /// Who it says it is.
    fn identity(&self) -> Identity<'_>;

    /// The tool definitions: a JSON list on one line, as `tools/list` shows it.
    fn tools(&self) -> &str;

    /// Calls one tool; `arguments` is an object where it is there.
    fn call<'a>(&'a self, tool: &'a str, arguments: Option<Value<'a>>) -> Calling<'a>;
}

/// A call under way.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<ToolResult, UnknownTool>> + Send + 'a>>;

/// Who a server is, and what a model should know of it before looking at its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'s> {
    pub name: &'s str,
    pub title: &'s str,
    pub version: &'s str,
    pub instructions: &'s str,
}

/// What a tool answers, failures of its own included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// What a model reads, one text a block.
    pub content: Vec<String>,
    /// The same for programs: one JSON value on one line.
    pub structured: Option<String>,
    /// Whether the tool could not do what was asked.
    pub is_error: bool,
}

/// The server has no tool of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownTool;

impl ToolResult {
    /// An answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        ToolResult { content: vec![text.into()], ..ToolResult::default() }
    }

    /// A failure the model should read, so that it can do better.
    pub fn error(text: impl Into<String>) -> Self {
        ToolResult { is_error: true, ..ToolResult::text(text) }
    }

    /// Adds the answer for programs, which must be one JSON value on one line.
    #[must_use]
    pub fn with_structured(self, json: String) -> Self {
        ToolResult { structured: Some(json), ..self }
    }

    /// The members of the result object, without its braces.
    fn members(&self) -> String {
        let mut members = String::from("\"content\":[");
        for (position, text) in self.content.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            let text = Quoted(text);
            // Writing to a string cannot fail.
            let _ = write!(members, "{comma}{{\"type\":\"text\",\"text\":{text}}}");
        }
        members.push(']');
        if let Some(structured) = &self.structured {
            members.push_str(",\"structuredContent\":");
            members.push_str(structured);
        }
        members.push_str(if self.is_error { ",\"isError\":true" } else { ",\"isError\":false" });
        members
    }
}

/// Answers one HTTP request as the server's MCP endpoint would.
pub async fn answer(server: &dyn Builtin, request: Request<Bytes>) -> Response<Bytes> {
    let (head, body) = request.into_parts();
    if head.method != Method::POST {
        return not_allowed();
    }
    match converse(server, &head.headers, body).await {
        Ok(Some(text)) => respond(StatusCode::OK, text),
        Ok(None) => empty(StatusCode::ACCEPTED),
        Err((fault, id)) => respond(fault.status, fault.body(id.as_ref())),
    }
}

/// The body of the answer, if the message asks for one. A fault comes with the
/// id of the request, if that could be read.
async fn converse(
    server: &dyn Builtin,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Option<String>, (Fault, Option<Id>)> {
    let document = Document::parse(body, &Bounds::default())
        .map_err(|refusal| (Fault::unreadable(&refusal), None))?;
    match Message::read(&document).map_err(|error| (Fault::invalid(&error), None))? {
        Message::Request { id, method, params } => {
            match serve::result(server, headers, method, params).await {
                Ok(result) => {
                    let id = fault::id_text(&id);
                    Ok(Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")))
                }
                Err(fault) => Err((fault, Some(id))),
            }
        }
        Message::Notification { .. } => Ok(None),
        Message::Response { .. } | Message::Failure { .. } => {
            Err((Fault::invalid(&"this server asks nothing, so it takes no answers"), None))
        }
    }
}

fn respond(status: StatusCode, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

/// There are no sessions to end and no streams to open, so only POST is left.
fn not_allowed() -> Response<Bytes> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}
