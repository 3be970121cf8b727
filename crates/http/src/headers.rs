//! Header names with a meaning in MCP. They are constants, because a name given as
//! text is parsed at each use.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The session of a legacy message.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The protocol version of a message.
pub const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a modern message, which the body contains too.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The target of a modern message, which the body contains too.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The event after which a stream is resumed.
pub const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// The prefix of headers that repeat an argument of a tool.
pub const PARAMETER_PREFIX: &str = "mcp-param-";
/// The prefix of all headers that MCP defines.
pub const PREFIX: &str = "mcp-";
/// The `Accept` of a streamable HTTP request: an answer of either kind.
pub const EITHER_ANSWER: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
/// The `Accept` of a request for a stream.
pub const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Whether these headers announce an event stream.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE);
    stated.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}
