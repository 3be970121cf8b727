//! Names that MCP gives to members of `_meta` and to extensions.

/// The protocol version of a modern request.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The capabilities of a client.
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// The log level that a request asks for.
pub const META_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The subscription that a notification belongs to.
pub const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a message belongs to.
pub const META_RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The extension that a client declares if it supports tasks of the modern era.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The member `_meta` of a modern client's request: the protocol version, its capabilities as JSON,
/// and its name and version, which need no escapes.
pub fn client_meta(
    revision: super::Revision,
    capabilities: &str,
    (name, version): (&str, &str),
) -> String {
    let revision = revision.name();
    format!(
        r#""_meta":{{"{META_VERSION}":"{revision}","{META_CAPABILITIES}":{capabilities},"{META_CLIENT}":{{"name":"{name}","version":"{version}"}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::client_meta;
    use crate::mcp::Revision;

    #[test]
    fn client_meta_has_the_version_and_the_capabilities() {
        let meta = client_meta(Revision::V2026_07_28, r#"{"roots":{}}"#, ("me", "1.2"));
        assert_eq!(
            meta,
            concat!(
                r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
                r#""io.modelcontextprotocol/clientCapabilities":{"roots":{}},"#,
                r#""io.modelcontextprotocol/clientInfo":{"name":"me","version":"1.2"}}"#
            )
        );
    }
}
