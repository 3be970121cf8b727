//! Headers that MCP gives a meaning to. Constants, because a name that is text is
//! read anew each time it is looked for.

use http::HeaderName;

/// The session a legacy message belongs to.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision a message is of.
pub const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
