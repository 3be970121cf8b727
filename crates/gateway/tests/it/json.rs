//! JSON that two readers could read in two ways never leaves.

use sluice_testkit::mcp_server;

use crate::{
    harness::{Harness, at, json},
    talk::OPEN,
};

async fn check(cases: &[(&str, i32)]) {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    for (body, code) in cases {
        let answer = harness.post_with(&[], body.as_bytes()).await;
        let shown: String = body.chars().take(200).collect();
        let status = if *code == -32602 { 200 } else { 400 };
        assert_eq!(answer.status, status, "{shown}: {}", answer.text());
        assert_eq!(at(&json(&answer), "error/code"), code.to_string(), "{shown}");
    }
    assert!(harness.upstream.requests().is_empty());
}

fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
}

#[tokio::test]
async fn duplicate_keys_are_refused_at_every_depth() {
    let deep = |depth: usize, inner: &str| {
        let open = r#"{"a":["#.repeat(depth);
        call(&format!(r#"{{"name":"read","arguments":{open}{inner}{}}}"#, "]}".repeat(depth)))
    };
    let cases = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"},"params":{"name":"drop"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/call"}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065tho\u0064":"ping"}"#.into(),
        call(r#"{"name":"read","name":"drop"}"#),
        call(r#"{"name":"read","n\u0061me":"drop"}"#),
        call(r#"{"name":"read","arguments":{"amount":1,"amount":1000}}"#),
        call(r#"{"name":"read","arguments":{"amount":1,"\u0061mount":1000}}"#),
        call(r#"{"name":"read","arguments":{"a/b":1,"a\/b":1000}}"#),
        call(r#"{"name":"read","arguments":{"😀":1,"\uD83D\uDE00":1000}}"#),
        call(r#"{"name":"read","arguments":{"":1,"":2}}"#),
        deep(1, r#"{"x":1,"x":2}"#),
        deep(20, r#"{"x":1,"\u0078":2}"#),
    ];
    let cases: Vec<_> = cases.iter().map(|body: &String| (body.as_str(), -32600)).collect();
    check(&cases).await;
}

#[tokio::test]
async fn invalid_json_is_refused() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let cases = [
        format!("\u{feff}{ping}"),
        format!("{ping}{ping}"),
        format!("{ping}\n{ping}"),
        format!("{ping} x"),
        format!("{ping}\0"),
        format!("{ping},"),
        format!("/* c */{ping}"),
        format!("{ping}// c"),
        r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":'ping'}"#.into(),
        r#"{jsonrpc:"2.0","id":1,"method":"ping"}"#.into(),
        r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#.into(),
        r#"{"jsonrpc":"2.0","id":+1,"method":"ping"}"#.into(),
        r#"{"jsonrpc":"2.0","id":0x1,"method":"ping"}"#.into(),
        r#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"pi\ud800ng"}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"p\x69ng"}"#.into(),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\nng\"}".into(),
        String::new(),
        "   ".into(),
        "{".into(),
    ];
    let cases: Vec<_> = cases.iter().map(|body: &String| (body.as_str(), -32700)).collect();
    check(&cases).await;
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    let around = |bytes: &[u8]| {
        let mut body =
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"r"#.to_vec();
        body.extend_from_slice(bytes);
        body.extend_from_slice(br#""}}"#);
        body
    };
    let utf16: Vec<u8> =
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bodies = [
        around(b"\xff"),
        around(b"\xc0\xaf"),
        around(b"\xed\xa0\x80"),
        around(b"\xf4\x90\x80\x80"),
        around(b"\xe2\x82"),
        around(b"\x00"),
        utf16,
    ];
    for body in bodies {
        let answer = harness.post_with(&[], &body).await;
        assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (400, "-32700"));
    }
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn size_is_bounded_in_every_direction() {
    let nested = |depth: usize| {
        call(&format!(
            r#"{{"name":"r","arguments":{{"a":{}{}}}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        ))
    };
    let long =
        call(&format!(r#"{{"name":"r","arguments":{{"a":"{}"}}}}"#, "x".repeat((1 << 20) + 1)));
    let key = call(&format!(r#"{{"name":"r","arguments":{{"{}":1}}}}"#, "x".repeat((1 << 20) + 1)));
    let digits = call(&format!(r#"{{"name":"r","arguments":{{"a":{}}}}}"#, "9".repeat(1025)));
    let nodes = call(&format!(r#"{{"name":"r","arguments":{{"a":[{}0]}}}}"#, "0,".repeat(100_001)));
    check(&[
        (&nested(62), -32600),
        (&nested(10_000), -32600),
        (&long, -32600),
        (&key, -32600),
        (&digits, -32600),
        (&nodes, -32600),
    ])
    .await;
}

#[tokio::test]
async fn numbers_keep_their_text() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    let mut sent = Vec::new();
    for number in [
        "18446744073709551616",
        "1.0",
        "1.10",
        "1E5",
        "-0",
        "-0.0",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "1e400",
        "1e-400",
    ] {
        let body = call(&format!(r#"{{"name":"read","arguments":{{ "n" : {number} }}}}"#));
        assert_eq!(harness.post(&body).await.status, 200);
        sent.push(body);
    }
    assert_eq!(harness.calls(), sent);
}

#[tokio::test]
async fn the_largest_of_everything_still_passes() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    // The message, its parameters and the arguments are three of the 64.
    let deep = format!("{}{}", "[".repeat(61), "]".repeat(61));
    let text = format!("\"{}\"", "x".repeat(1 << 20));
    let digits = "9".repeat(1024);
    let mut sent = Vec::new();
    for value in [deep, text, digits] {
        let body = call(&format!(r#"{{"name":"read","arguments":{{"a":{value}}}}}"#));
        assert_eq!(harness.post(&body).await.status, 200);
        sent.push(body);
    }
    assert!(harness.calls().len() >= sent.len() - 1);
    let recorded = harness.upstream.requests();
    for body in sent {
        assert!(recorded.iter().any(|request| request.body == body.as_bytes()));
    }
}
