//! Header names with a meaning in MCP. They are constants, because a name given as
//! text is parsed at each use.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The session a legacy message belongs to.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision a message is of.
pub const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a modern message, repeated.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// What a modern message is aimed at, repeated.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Where a stream is taken up again.
pub const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// What names of headers begin with that repeat an argument of a tool.
pub const PARAMETER_PREFIX: &str = "mcp-param-";
/// What all names begin with that MCP has made itself.
pub const PREFIX: &str = "mcp-";
/// What a client of streamable HTTP accepts: an answer of either kind.
pub const EITHER_ANSWER: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
/// What it accepts for a stream.
pub const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Whether these are the headers of an answer that is an event stream.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE);
    stated.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}
