//! A built-in server as its clients see it, in both eras.

mod long_calls;

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use sluice_wire::json::{Bounds, Document};

use super::{Builtin, Call, Calling, Endpoint, Identity, ToolResult, UnknownTool};

/// Repeats its arguments; `sulk` fails.
struct Echo;

impl Builtin for Echo {
    fn identity(&self) -> Identity<'_> {
        Identity { name: "echo", title: "Echo", version: "1.2", instructions: "Say \"hi\"." }
    }

    fn tools(&self) -> &'static str {
        r#"[{"name":"échø","inputSchema":{"type":"object"}},{"name":"sulk","inputSchema":{"type":"object"}}]"#
    }

    fn call<'a>(&'a self, call: Call<'a>) -> Calling<'a> {
        Box::pin(async move {
            match call.tool {
                "échø" => {
                    let text = call.arguments.map(|value| value.to_string()).unwrap_or_default();
                    Ok(ToolResult::text("you said").with_structured(text))
                }
                "sulk" => Ok(ToolResult::error("not\nnow")),
                _ => Err(UnknownTool),
            }
        })
    }
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
const SERVER_INFO: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo","title":"Echo","version":"1.2"}}"#;

/// Nothing in here waits for anything, so the first poll has the answer.
fn answered(request: Request<Bytes>) -> Response<Bytes> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let answer = async {
        let (head, body) = Endpoint::new(Arc::new(Echo)).answer(request).await.into_parts();
        Response::from_parts(head, body.collect().await.unwrap().to_bytes())
    };
    match pin!(answer).poll(&mut context) {
        std::task::Poll::Ready(response) => response,
        std::task::Poll::Pending => panic!("the answer waits for something"),
    }
}

fn post(headers: &[(&str, &str)], body: &str) -> Request<Bytes> {
    let mut request = Request::post("/").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

/// `expected` is the status, a blank, and the whole body.
fn check(request: Request<Bytes>, expected: &str) {
    let asked = format!("{:?} {:?}", request.headers(), request.body());
    let response = answered(request);
    assert!(!response.headers().contains_key("mcp-session-id"), "{asked}");
    let body = std::str::from_utf8(response.body()).unwrap();
    if !body.is_empty() {
        Document::parse(body, &Bounds::default()).expect(body);
        assert_eq!(response.headers()["content-type"], "application/json", "{asked}");
    }
    assert_eq!(format!("{} {body}", response.status().as_u16()), expected, "{asked}");
}

fn legacy(body: &str, expected: &str) {
    for headers in [&[][..], &[("mcp-protocol-version", "2025-06-18"), ("mcp-method", "x")]] {
        check(post(headers, body), expected);
    }
}

/// A modern request for `method`, with its headers as they should be.
fn modern(method: &str, name: Option<&str>, params: &str, expected: &str) {
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(name.map(|name| ("mcp-name", name)));
    let comma = if params.is_empty() { "" } else { "," };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{{params}{comma}{META}}}}}"#
    );
    check(post(&headers, &body), expected);
}

#[test]
fn initialize_agrees_on_a_legacy_revision() {
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{asked}"}}}}"#
        );
        let expected = format!(
            r#"200 {{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{agreed}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","title":"Echo","version":"1.2"}},"instructions":"Say \"hi\"."}}}}"#
        );
        legacy(&body, &expected);
    }
    legacy(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#,
        r#"200 {"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"`params.protocolVersion` must be a string"}}"#,
    );
}

#[test]
fn notifications_are_accepted_without_a_body() {
    legacy(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "202 ");
    legacy(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        "202 ",
    );
}

#[test]
fn ids_come_back_as_they_were() {
    for id in ["0", "-7", "123456789012345678901234567890", r#""1""#, r#""a\"\u0001é""#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        legacy(&body, &format!(r#"200 {{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

#[test]
fn legacy_tools_are_listed_and_called() {
    legacy(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
        &format!(r#"200 {{"jsonrpc":"2.0","id":1,"result":{{"tools":{}}}}}"#, Echo.tools()),
    );
    legacy(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#,
        r#"200 {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"there is one page only: leave `params.cursor` out"}}"#,
    );
    legacy(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"échø","arguments":{"n": 1.0000000000000000001}}}"#,
        r#"200 {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"you said"}],"structuredContent":{"n":1.0000000000000000001},"isError":false}}"#,
    );
    legacy(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sulk"}}"#,
        r#"200 {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"not\nnow"}],"isError":true}}"#,
    );
    legacy(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}"#,
        r#"200 {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool `nope`"}}"#,
    );
    legacy(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sulk","arguments":[]}}"#,
        r#"200 {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"`params.arguments` must be an object, found list"}}"#,
    );
}

#[test]
fn legacy_methods_it_lacks_are_unknown_at_200() {
    for method in ["resources/list", "logging/setLevel", "server/discover", "x/y"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        let expected = format!(
            r#"200 {{"jsonrpc":"2.0","id":1,"error":{{"code":-32601,"message":"unknown method `{method}`"}}}}"#
        );
        legacy(&body, &expected);
    }
}

#[test]
fn invalid_messages_are_refused() {
    legacy(
        r#"{"jsonrpc":"2.0","#,
        r#"400 {"jsonrpc":"2.0","error":{"code":-32700,"message":"unexpected end of text at byte 17"}}"#,
    );
    legacy(
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"400 {"jsonrpc":"2.0","error":{"code":-32600,"message":"batches are not accepted: send one message at a time"}}"#,
    );
    legacy(
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"400 {"jsonrpc":"2.0","error":{"code":-32600,"message":"this server asks nothing, so it takes no answers"}}"#,
    );
}

#[test]
fn only_post_is_allowed() {
    for method in ["GET", "DELETE", "PUT"] {
        let request = Request::builder().method(method).body(Bytes::new()).unwrap();
        let response = answered(request);
        assert_eq!(response.status(), 405, "{method}");
        assert_eq!(response.headers()["allow"], "POST", "{method}");
    }
}

#[test]
fn a_version_header_nobody_knows_is_refused() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let expected = r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"protocol version `2025-06-19` is not supported","data":{"supported":["2026-07-28"],"requested":"2025-06-19"}}}"#;
    check(post(&[("mcp-protocol-version", "2025-06-19")], body), expected);
}

#[test]
fn modern_requests_are_answered() {
    modern(
        "server/discover",
        None,
        "",
        &format!(
            r#"200 {{"jsonrpc":"2.0","id":"a","result":{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},"instructions":"Say \"hi\".","ttlMs":300000,"cacheScope":"public","resultType":"complete",{SERVER_INFO}}}}}"#
        ),
    );
    modern(
        "tools/list",
        None,
        "",
        &format!(
            r#"200 {{"jsonrpc":"2.0","id":"a","result":{{"tools":{},"ttlMs":300000,"cacheScope":"public","resultType":"complete",{SERVER_INFO}}}}}"#,
            Echo.tools()
        ),
    );
    modern(
        "tools/call",
        Some("=?base64?w6ljaMO4?="),
        r#""name":"échø","arguments":{}"#,
        &format!(
            r#"200 {{"jsonrpc":"2.0","id":"a","result":{{"content":[{{"type":"text","text":"you said"}}],"structuredContent":{{}},"isError":false,"resultType":"complete",{SERVER_INFO}}}}}"#
        ),
    );
    modern(
        "tools/call",
        Some("nope"),
        r#""name":"nope""#,
        r#"200 {"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"unknown tool `nope`"}}"#,
    );
}

#[test]
fn modern_methods_it_lacks_are_not_found() {
    for method in ["ping", "initialize", "subscriptions/listen", "resources/list", "x/y"] {
        let expected = format!(
            r#"404 {{"jsonrpc":"2.0","id":"a","error":{{"code":-32601,"message":"unknown method `{method}`"}}}}"#
        );
        modern(method, None, "", &expected);
    }
}

/// A modern call of `sulk` whose headers are as given.
fn mismatch(headers: &[(&str, &str)], message: &str) {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"sulk",{META}}}}}"#
    );
    let expected = format!(
        r#"400 {{"jsonrpc":"2.0","id":1,"error":{{"code":-32020,"message":"{message}"}}}}"#
    );
    check(post(headers, &body), &expected);
}

#[test]
fn headers_must_say_what_the_body_says() {
    let version = ("mcp-protocol-version", "2026-07-28");
    let method = ("mcp-method", "tools/call");
    let name = ("mcp-name", "sulk");
    mismatch(&[method, name], "header `MCP-Protocol-Version` is missing");
    mismatch(&[version, name], "header `Mcp-Method` is missing");
    mismatch(&[version, method], "header `Mcp-Name` is missing");
    mismatch(
        &[("mcp-protocol-version", "2025-11-25"), method, name],
        "header `MCP-Protocol-Version` does not say what the body says",
    );
    mismatch(
        &[version, ("mcp-method", "tools/list"), name],
        "header `Mcp-Method` does not say what the body says",
    );
    for other in ["Sulk", "nope", "=?base64?bm9wZQ==?=", "=?base64?c3Vsa?=", ""] {
        let message = "header `Mcp-Name` does not say what the body says";
        mismatch(&[version, method, ("mcp-name", other)], message);
    }
    mismatch(&[version, method, name, name], "header `Mcp-Name` is there more than once");
    mismatch(&[version, method, ("mcp-name", "é")], "header `Mcp-Name` is not plain ASCII");
}

/// A modern request whose `_meta` is as given.
fn meta(version: &str, meta: &str, code: i32) {
    let headers = [("mcp-protocol-version", version), ("mcp-method", "tools/list")];
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
    let response = answered(post(&headers, &body));
    assert_eq!(response.status(), 400, "{meta}");
    let document = Document::parse(response.body().to_vec(), &Bounds::default()).unwrap();
    let error = document.root().get("error").unwrap();
    assert_eq!(error.get("code").unwrap().raw(), code.to_string(), "{meta}");
}

#[test]
fn every_modern_request_says_who_speaks() {
    let complete = META.strip_prefix(r#""_meta":"#).unwrap();
    meta("2026-07-28", "{}", -32602);
    meta("2026-07-28", "7", -32602);
    meta("2026-07-28", r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#, -32602);
    meta("2026-07-28", &complete.replace("{}", "[]"), -32602);
    meta("2026-07-28", &complete.replace(r#""2026-07-28""#, "1"), -32602);
    meta("2025-11-25", &complete.replace("2026-07-28", "2025-11-25"), -32022);
    meta("2031-01-01", &complete.replace("2026-07-28", "2031-01-01"), -32022);
}
