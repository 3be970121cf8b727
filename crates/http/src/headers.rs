//! Header names with a meaning in MCP. They are constants, because a name given as
//! text is parsed at each use.

use http::HeaderName;

/// The session a legacy message belongs to.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision a message is of.
pub const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
