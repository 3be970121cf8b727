//! Messages that are not exactly one request, notification or answer, and
//! members that only look like the ones that matter.

use sluice_testkit::mcp_server;

use crate::{
    harness::{Harness, at, json},
    talk::{OPEN, mirrors, modern_body},
};

/// Each is refused, and nothing at all reaches the upstream.
async fn check(bodies: &[String]) {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    for body in bodies {
        let answer = harness.post_with(&[], body.as_bytes()).await;
        let code = at(&json(&answer), "error/code");
        assert!(["-32600", "-32602"].contains(&code.as_str()), "{body}: {}", answer.text());
        let status = if code == "-32602" { 200 } else { 400 };
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
    assert!(harness.upstream.requests().is_empty());
}

/// Spellings of a name that some reader takes for it.
fn look_alikes(name: &str) -> Vec<String> {
    let (first, rest) = name.split_at(1);
    let capital = format!("{}{rest}", first.to_uppercase());
    let mut spellings = vec![
        capital,
        name.to_uppercase(),
        format!(" {name}"),
        format!("{name} "),
        format!("{name}\\t"),
        format!("\\n{name}"),
        format!("{name}\\u0000"),
        format!("\\u0000{name}"),
        format!("{name}\\u0000x"),
        format!("\\ufeff{name}"),
        format!("{name}\\u00a0"),
        format!("{name}\\u2003"),
    ];
    if name.contains('s') {
        spellings.push(name.replacen('s', "\u{17f}", 1));
        spellings.push(name.replacen('s', "\\u017f", 1));
    }
    if name.contains('k') {
        spellings.push(name.replacen('k', "\u{212a}", 1));
    }
    // `_meta` has no other first letter.
    spellings.retain(|spelling| spelling != name);
    spellings
}

#[tokio::test]
async fn look_alikes_of_the_envelope_are_refused() {
    let mut bodies = Vec::new();
    for name in ["jsonrpc", "id", "method", "params", "result", "error"] {
        for spelling in look_alikes(name) {
            let (beside, instead) = match name {
                "params" => (r#","params":{"name":"read"}"#, ""),
                _ => ("", ""),
            };
            let value = match name {
                "jsonrpc" => "\"2.0\"",
                "method" => "\"tools/call\"",
                "id" => "2",
                _ => r#"{"name":"drop"}"#,
            };
            for params in [beside, instead] {
                bodies.push(format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call"{params},"{spelling}":{value}}}"#
                ));
                bodies.push(format!(
                    r#"{{"{spelling}":{value},"jsonrpc":"2.0","id":1,"method":"ping"{params}}}"#
                ));
            }
        }
    }
    check(&bodies).await;
}

#[tokio::test]
async fn look_alikes_of_parameters_are_refused() {
    let cases = [
        ("tools/call", "name", "\"drop\"", r#""name":"read""#),
        ("tools/call", "arguments", r#"{"amount":1000}"#, r#""name":"read""#),
        ("tools/call", "requestState", "\"x\"", r#""name":"read""#),
        ("tools/call", "inputResponses", "{}", r#""name":"read""#),
        ("tools/call", "_meta", "{}", r#""name":"read""#),
        ("tools/call", "task", "{}", r#""name":"read""#),
        ("prompts/get", "name", "\"secret\"", r#""name":"open""#),
        ("resources/read", "uri", "\"file:///etc\"", r#""uri":"file:///a""#),
        ("resources/subscribe", "uri", "\"file:///etc\"", r#""uri":"file:///a""#),
        (
            "completion/complete",
            "ref",
            r#"{"type":"ref/prompt","name":"p"}"#,
            r#""ref":{"type":"ref/prompt","name":"q"}"#,
        ),
        ("tasks/get", "taskId", "\"t\"", r#""taskId":"u""#),
    ];
    let mut bodies = Vec::new();
    for (method, name, value, beside) in cases {
        for spelling in look_alikes(name) {
            bodies.push(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{beside},"{spelling}":{value}}}}}"#
            ));
        }
    }
    // `tasks/get` belongs to one legacy revision.
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    for body in &bodies {
        let headers = [("mcp-protocol-version", "2025-11-25")];
        let answer = harness.post_with(&headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{body}");
        assert_eq!(at(&json(&answer), "error/code"), "-32602", "{body}: {}", answer.text());
    }
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn look_alikes_are_refused_in_the_modern_era_too() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    for (name, value) in [("name", "\"drop\""), ("arguments", "{}"), ("requestState", "\"x\"")] {
        for spelling in look_alikes(name) {
            let params = format!(r#""name":"read","{spelling}":{value}"#);
            let body = modern_body("tools/call", &params, "{}");
            let headers = mirrors("tools/call", Some("read"));
            let answer = harness.post_with(&headers, body.as_bytes()).await;
            assert_eq!(at(&json(&answer), "error/code"), "-32602", "{body}: {}", answer.text());
        }
    }
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn a_body_that_is_not_one_message_is_refused() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
    let bodies = [
        "[]",
        &format!("[{call}]"),
        &format!("[{call},{call}]"),
        "null",
        "\"tools/call\"",
        "1",
        "{}",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"params":{}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
    ]
    .map(str::to_owned);
    check(&bodies).await;
}

#[tokio::test]
async fn ids_are_strings_or_integers() {
    let ids = ["null", "1.0", "1.5", "1e3", "-0", "true", "[]", "[1]", "{}"];
    let bodies: Vec<_> = ids
        .iter()
        .map(|id| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"read"}}}}"#
            )
        })
        .collect();
    check(&bodies).await;
}

#[tokio::test]
async fn a_notification_cannot_carry_a_request_nor_a_request_be_a_notification() {
    let methods =
        ["tools/call", "resources/read", "prompts/get", "initialize", "tools/list", "ping"];
    let mut bodies: Vec<_> = methods
        .iter()
        .map(|method| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"name":"read","uri":"a:b"}}}}"#
            )
        })
        .collect();
    bodies.push(r#"{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}"#.into());
    bodies.push(r#"{"jsonrpc":"2.0","id":1,"method":"notifications/tools/call"}"#.into());
    check(&bodies).await;
}

#[tokio::test]
async fn parameters_of_the_wrong_kind_are_refused() {
    let params = [
        "[]",
        r#"["read",{}]"#,
        "null",
        "\"read\"",
        "{}",
        r#"{"name":null}"#,
        r#"{"name":["read"]}"#,
        r#"{"name":{"name":"read"}}"#,
        r#"{"name":1}"#,
        r#"{"name":"read","arguments":[]}"#,
        r#"{"name":"read","arguments":null}"#,
        r#"{"name":"read","arguments":"{}"}"#,
        r#"{"name":"read","arguments":1}"#,
        r#"{"name":"read","requestState":1}"#,
    ];
    let mut bodies: Vec<_> = params
        .iter()
        .map(|params| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
        })
        .collect();
    bodies.push(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#.into());
    check(&bodies[..bodies.len() - 2]).await;
    check(&bodies[bodies.len() - 1..]).await;
}
