//! Header names with a meaning in MCP. They are constants, because a name given as
//! text is parsed at each use.

use http::HeaderName;

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
