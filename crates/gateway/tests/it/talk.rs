//! What clients of both eras say, and how long tests wait for anything.

use std::time::Duration;

use sluice_testkit::{Answer, RawClient, Recorded, Reply};

use crate::harness::{Harness, request};

/// A policy that lets everything through.
pub(crate) const OPEN: &str = r#"{"version":"1","default":"allow"}"#;

pub(crate) const REVISION: &str = "2026-07-28";

/// Waits until something is so; fails where it never is.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain until {what}");
}

/// A modern message: members of `params` besides `_meta`, and what the client can do.
pub(crate) fn modern_body(method: &str, params: &str, capabilities: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{comma}"_meta":{{"io.modelcontextprotocol/protocolVersion":"{REVISION}","io.modelcontextprotocol/clientCapabilities":{capabilities}}}}}}}"#
    )
}

/// The headers that repeat a modern message.
pub(crate) fn mirrors<'a>(method: &'a str, target: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut headers = vec![("mcp-protocol-version", REVISION), ("mcp-method", method)];
    headers.extend(target.map(|target| ("mcp-name", target)));
    headers
}

impl Harness {
    /// Posts a modern message as it should be.
    pub(crate) async fn modern(&self, method: &str, target: Option<&str>, params: &str) -> Answer {
        let body = modern_body(method, params, "{}");
        self.post_with(&mirrors(method, target), body.as_bytes()).await
    }

    /// Calls a tool in the modern era.
    pub(crate) async fn modern_call(&self, tool: &str, arguments: &str) -> Answer {
        let params = format!(r#""name":"{tool}","arguments":{arguments}"#);
        self.modern("tools/call", Some(tool), &params).await
    }

    /// Begins a session, and gives the id of it that a client sees.
    pub(crate) async fn session(&self, token: &str) -> String {
        let answer = self.session_of(token).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("mcp-session-id").expect("a session").to_owned()
    }

    /// What comes of wanting to begin a session.
    pub(crate) async fn session_of(&self, token: &str) -> Answer {
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let token = format!("Bearer {token}");
        self.post_with(&[("authorization", &token)], hello.as_bytes()).await
    }

    /// A connection on which a request was sent whose answer goes on.
    pub(crate) async fn begun(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> RawClient {
        let mut client = RawClient::connect(self.address).await.unwrap();
        let bytes = request(method, "/mcp/notes", self.address, headers, body);
        client.send(&bytes).await.unwrap();
        client
    }

    /// The calls that reached the upstream.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.upstream.bodies_of("tools/call")
    }
}

/// Reads a stream until it has said something.
pub(crate) async fn hear(client: &mut RawClient, text: &str) -> String {
    let mut heard = String::new();
    while !heard.contains(text) {
        let chunk = client.chunk().await.unwrap();
        let chunk = chunk.filter(|chunk| !chunk.is_empty());
        let chunk = chunk.unwrap_or_else(|| panic!("the stream ended without `{text}`: {heard}"));
        heard.push_str(&String::from_utf8_lossy(&chunk));
    }
    heard
}

/// A small modern MCP server with the given tools, whose subscriptions stay open.
pub(crate) fn modern_server(
    tools: &'static str,
) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    move |request| match request.rpc_method().as_deref() {
        Some("server/discover") => Reply::result(
            request,
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"recording","version":"1"}}"#,
        ),
        Some("tools/list") => Reply::result(
            request,
            &format!(
                r#"{{"resultType":"complete","tools":{tools},"ttlMs":3600000,"cacheScope":"public"}}"#
            ),
        ),
        Some("tools/call") => Reply::result(
            request,
            r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#,
        ),
        _ => {
            let id = request.rpc_id();
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#
            );
            Reply::new(404, "application/json", body)
        }
    }
}

/// The same server, whose answer to `ping` is an event with the id 1.
pub(crate) fn with_event_ids(
    server: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    move |request| match request.rpc_method().as_deref() {
        Some("ping") => {
            let id = request.rpc_id();
            Reply::events(format!(
                "id: 1\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n\n"
            ))
        }
        _ => server(request),
    }
}

/// The last event id of a stream.
pub(crate) fn last_id(heard: &str) -> String {
    let mut ids = heard.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.next_back().unwrap_or_else(|| panic!("no event id: {heard}")).to_owned()
}

impl Harness {
    /// The gateway's id of the event 1 of such a server, in this session of a grant.
    pub(crate) async fn event_id(&self, token: &str, session: &str) -> String {
        let token = format!("Bearer {token}");
        let headers = [("authorization", token.as_str()), ("mcp-session-id", session)];
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        last_id(&self.post_with(&headers, ping).await.text())
    }
}
