//! A small MCP client for both eras: for listing a server's tools, and for `sluice call`.

mod begin;
mod pages;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt as _;
use sluice_http::{
    AnswerBody, SendError, collect, headers as mcp_headers, offload,
    sse::{Decoder, Event},
};
use sluice_stdio::Inquiry;
use sluice_wire::{
    edit::quote,
    json::{Bounds, Document, Value},
    mcp::{Revision, client_meta, header_text},
    rpc::{Id, Message, resembles_message},
};

use crate::Upstream;

const NAME: &str = "sluicegate";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A connection to a server after the handshake.
#[derive(Debug)]
pub struct Client<'u> {
    upstream: &'u Upstream,
    /// Headers sent with every request, such as a credential.
    headers: &'u HeaderMap,
    bounds: Bounds,
    declares: Declares,
    manner: Manner,
    /// The server's answer to the handshake.
    introduction: Option<Document>,
    /// The id of the next request.
    next: u32,
}

/// The capabilities that the client declares. It answers no request of a server in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declares {
    Nothing,
    /// All of them: some servers show some of their tools only to clients with certain
    /// capabilities.
    Everything,
}

impl Declares {
    fn capabilities(self) -> &'static str {
        match self {
            Declares::Nothing => "{}",
            Declares::Everything => r#"{"elicitation":{},"roots":{},"sampling":{}}"#,
        }
    }
}

/// The era and the session of the connection.
#[derive(Debug)]
enum Manner {
    Modern,
    Legacy { session: Option<HeaderValue>, revision: String },
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Send(#[from] SendError),
    /// The message is that of a JSON-RPC error in the body, if there is one.
    #[error("it answered `{method}` with status {status}{}", message_suffix(message.as_deref()))]
    Status { method: String, status: u16, message: Option<String> },
    #[error("its answer to `{method}` is invalid: {reason}")]
    Answer { method: String, reason: String },
    /// The server answered with an error.
    #[error("it refused `{method}`: {message}")]
    Refused { method: String, message: String },
}

fn message_suffix(message: Option<&str>) -> String {
    message.map(|message| format!(": {message}")).unwrap_or_default()
}

/// The target of a request: a tool, prompt or resource. Modern requests also name it in a header.
pub type Target<'t> = Option<&'t str>;

impl Client<'_> {
    /// The negotiated protocol version, which is a date.
    pub fn revision(&self) -> &str {
        match &self.manner {
            Manner::Modern => Revision::V2026_07_28.name(),
            Manner::Legacy { revision, .. } => revision,
        }
    }

    /// The server's result in the handshake.
    pub fn introduction(&self) -> Option<Value<'_>> {
        self.introduction.as_ref()?.root().get("result")
    }

    /// Sends a request, with the members of its parameters as JSON; returns the whole answer, a
    /// result or an error.
    pub async fn request(
        &mut self,
        method: &str,
        params: &str,
        target: Target<'_>,
    ) -> Result<Document, ClientError> {
        let id = self.take_id();
        let answer = self.send(method, &self.message(id, method, params), target).await?;
        self.response(method, answer, id).await
    }

    /// Ends the session, if there is one. Failures are ignored.
    pub async fn goodbye(self) {
        if let Manner::Legacy { session: Some(_), .. } = self.manner {
            let mut request = self.http("", "", None);
            *request.method_mut() = Method::DELETE;
            let _ = self.upstream.send(request).await;
        }
    }

    fn take_id(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn message(&self, id: u32, method: &str, params: &str) -> String {
        let meta = match self.manner {
            Manner::Modern => {
                let capabilities = self.declares.capabilities();
                client_meta(Revision::V2026_07_28, capabilities, (NAME, VERSION))
            }
            Manner::Legacy { .. } => String::new(),
        };
        let comma = if meta.is_empty() || params.is_empty() { "" } else { "," };
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{{{params}{comma}{meta}}}}}"#,
            quote(method)
        )
    }

    async fn send(
        &self,
        method: &str,
        message: &str,
        target: Target<'_>,
    ) -> Result<Response<AnswerBody>, ClientError> {
        let answer = self.upstream.send(self.http(message, method, target)).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let body = collect(answer.into_body(), 64 << 10).await.unwrap_or_default();
        let document = Document::parse(body, &self.bounds).ok();
        let message = document
            .as_ref()
            .and_then(|document| document.root().get("error")?.get("message")?.as_str());
        Err(ClientError::Status {
            method: method.to_owned(),
            status,
            message: message.map(str::to_owned),
        })
    }

    fn http(&self, message: &str, method: &str, target: Target<'_>) -> Request<Bytes> {
        let mut request = Request::new(Bytes::copy_from_slice(message.as_bytes()));
        *request.method_mut() = Method::POST;
        request.extensions_mut().insert(Inquiry);
        let headers = request.headers_mut();
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        };
        set(header::CONTENT_TYPE, "application/json");
        set(header::ACCEPT, "application/json, text/event-stream");
        match &self.manner {
            Manner::Modern => {
                set(mcp_headers::REVISION, Revision::V2026_07_28.name());
                set(mcp_headers::METHOD, method);
                if let Some(target) = target {
                    set(mcp_headers::NAME, &header_text(target));
                }
            }
            Manner::Legacy { session, revision } => {
                if method != "initialize" {
                    set(mcp_headers::REVISION, revision);
                }
                if let Some(session) = session {
                    headers.insert(mcp_headers::SESSION, session.clone());
                }
            }
        }
        for (name, value) in self.headers {
            headers.insert(name.clone(), value.clone());
        }
        request
    }

    /// Extracts the message that answers a request, from JSON or from an event stream.
    async fn response(
        &self,
        method: &str,
        answer: Response<AnswerBody>,
        id: u32,
    ) -> Result<Document, ClientError> {
        let none = |reason: String| ClientError::Answer { method: method.to_owned(), reason };
        let stated =
            answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let id = Id::Integer(id.to_string());
        if mcp_headers::is_event_stream(answer.headers()) {
            return self.read_stream(answer.into_body(), &id).await.map_err(none);
        }
        let kind = stated.and_then(|stated| stated.split(';').next()).map(str::trim);
        let other = kind.filter(|kind| !kind.contains("json")).map(str::to_owned);
        let bytes = collect(answer.into_body(), self.bounds.bytes).await;
        let bytes = bytes.map_err(|error| none(error.to_string()))?;
        let parsed = offload::parse(bytes, &self.bounds).await;
        let parsed = parsed.ok_or_else(|| none("it could not be read".into()))?;
        let document =
            parsed.map_err(|refusal| {
                none(other.map_or_else(
                    || refusal.to_string(),
                    |kind| format!("it is no JSON but `{kind}`"),
                ))
            })?;
        if is_answer(&document, &id) {
            Ok(document)
        } else {
            Err(none("it is to another request".into()))
        }
    }

    async fn read_stream(&self, mut body: AnswerBody, id: &Id) -> Result<Document, String> {
        let mut decoder = Decoder::new(self.bounds.bytes);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| "it broke off".to_owned())?.into_data() else {
                continue;
            };
            let mut events = Vec::new();
            decoder.push(&data, |event| events.push(event)).map_err(|error| error.to_string())?;
            for data in events.into_iter().filter_map(Event::into_message) {
                let document = match Document::parse(data.as_str(), &self.bounds) {
                    Err(_) if !resembles_message(&data) => continue,
                    read => read.map_err(|refusal| refusal.to_string())?,
                };
                if is_answer(&document, id) {
                    return Ok(document);
                }
            }
        }
        Err("it ended too soon".into())
    }
}

fn is_answer(document: &Document, id: &Id) -> bool {
    match Message::read(document) {
        Ok(Message::Response { id: found, .. } | Message::Failure { id: Some(found), .. }) => {
            found == *id
        }
        _ => false,
    }
}
