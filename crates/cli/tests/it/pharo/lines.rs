//! How `sluice pharo` speaks: both eras, several calls at once, cancellation,
//! progress, images that come and go, and its end.

use serde_json::{Value, json};
use sluice_testkit::PharoImage;

use super::{Image, Server, meta, until};

#[tokio::test]
async fn a_legacy_client_is_answered() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let answer = server.request("initialize", hello).await["result"].take();
    assert_eq!(answer["protocolVersion"], "2025-06-18");
    assert_eq!(answer["serverInfo"]["name"], "pharo-smalltalk-interop-mcp-server");
    server.notify("notifications/initialized", json!({})).await;
    assert_eq!(server.request("ping", json!({})).await["result"], json!({}));
    assert_eq!(server.eval("1 + 1").await["structuredContent"]["result"], 2);
    let unknown = server.request("prompts/list", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601);
    let modern = server.request("server/discover", json!({})).await;
    assert_eq!(modern["error"]["code"], -32601);
    assert_eq!(server.end().await, Some(0));
}

#[tokio::test]
async fn a_modern_client_is_answered() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let found = server.request("server/discover", json!({"_meta": meta()})).await["result"].take();
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    let list = server.request("tools/list", json!({"_meta": meta()})).await["result"].take();
    assert_eq!(list["tools"].as_array().unwrap().len(), 22);
    assert_eq!(list["resultType"], "complete");
    let call = json!({"name": "eval", "arguments": {"code": "2 * 3"}, "_meta": meta()});
    let result = server.request("tools/call", call).await["result"].take();
    assert_eq!(result["structuredContent"], json!({"success": true, "result": 6}));
    let ping = server.request("ping", json!({"_meta": meta()})).await;
    assert_eq!(ping["error"]["code"], -32601);
    let bare = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    assert_eq!(server.request("tools/list", bare).await["error"]["code"], -32602);
}

#[tokio::test]
async fn calls_hold_up_neither_each_other_nor_a_ping() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let slow = |code: &str| json!({"name": "eval", "arguments": {"code": code}});
    let first = server.ask("tools/call", slow("SisGate wait. 1 + 1")).await;
    let second = server.ask("tools/call", slow("SisGate wait. 2 * 3")).await;
    until("both wait", || image.under_way() == 2).await;
    server.request("ping", json!({})).await;
    server.request("tools/list", json!({})).await;
    assert_eq!(server.eval("10 / 2").await["structuredContent"]["result"], 5);
    image.open_gate();
    image.open_gate();
    let mut answered = [server.next().await, server.next().await];
    answered.sort_by_key(|answer| answer["id"].as_u64());
    let result = |answer: &Value| answer["result"]["structuredContent"]["result"].clone();
    assert_eq!(
        answered.each_ref().map(|answer| answer["id"].clone()),
        [first, second].map(Value::from)
    );
    assert_eq!(answered.each_ref().map(result), [2, 6].map(Value::from));
}

#[tokio::test]
async fn a_cancelled_call_lets_go_of_the_image() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let halt = json!({"name": "eval", "arguments": {"code": "self halt"}});
    let id = server.ask("tools/call", halt).await;
    until("it waits", || image.under_way() == 1).await;
    // An id of another type is another id.
    server.notify("notifications/cancelled", json!({"requestId": id.to_string()})).await;
    server.request("ping", json!({})).await;
    assert_eq!(image.under_way(), 1);
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": "x"})).await;
    until("the image is let go", || image.under_way() == 0).await;
    // Nothing is said of the call any more.
    server.request("ping", json!({})).await;
    assert_eq!(server.eval("1 + 1").await["isError"], false);
}

#[tokio::test]
async fn a_client_that_goes_away_lets_go_of_the_image() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let halt = json!({"name": "eval", "arguments": {"code": "self halt"}});
    server.ask("tools/call", halt).await;
    until("it waits", || image.under_way() == 1).await;
    assert_eq!(server.end().await, Some(0));
    until("the image is let go", || image.under_way() == 0).await;
}

#[tokio::test]
async fn answers_under_way_still_come_after_the_last_message() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let call = json!({"name": "eval", "arguments": {"code": "1 + 1"}});
    server.ask("tools/call", call).await;
    drop(server.stdin.take());
    assert_eq!(server.next().await["result"]["structuredContent"]["result"], 2);
    assert_eq!(server.hear().await, None);
}

#[tokio::test]
async fn long_evaluations_report_progress() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag(), "--timeout", "1m"]);
    let call = json!({
        "name": "eval",
        "arguments": {"code": "SisGate wait. 1 + 1"},
        "_meta": {"progressToken": "p-1"},
    });
    let id = server.ask("tools/call", call).await;
    let report = server.next().await;
    assert_eq!(report["method"], "notifications/progress");
    let params = &report["params"];
    assert_eq!((&params["progressToken"], &params["total"]), (&json!("p-1"), &json!(60)));
    assert_eq!(params["progress"], 1);
    image.open_gate();
    let answer = loop {
        let next = server.next().await;
        if next.get("id").is_some() {
            break next;
        }
    };
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(id), &json!(false)));
}

#[tokio::test]
async fn a_slow_image_is_given_up_on() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag(), "--timeout", "1s"]);
    let result = server.eval("self halt").await;
    assert_eq!(result["isError"], false);
    let error = result["structuredContent"]["error"].as_str().unwrap();
    assert!(error.starts_with("Connection error: timed out"), "{error}");
    assert!(error.contains(&format!("http://localhost:{}", image.port())), "{error}");
    until("the image is let go", || image.under_way() == 0).await;
}

#[tokio::test]
async fn an_image_may_come_and_go() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag(), "--host", "127.0.0.1"]);
    assert_eq!(server.eval("1 + 1").await["structuredContent"]["result"], 2);
    image.quit();
    let url = format!("http://{}", image.address);
    let mut error = String::new();
    // Whether its port is closed already when this is sent is the system's affair.
    while !error.contains("SisServer current start") {
        let result = server.eval("1 + 1").await;
        assert_eq!(result["isError"], false);
        assert_eq!(result["structuredContent"]["success"], false, "{result}");
        error = result["structuredContent"]["error"].as_str().unwrap().to_owned();
        assert!(error.starts_with("Connection error: ") && error.contains(&url), "{error}");
    }
    let again = PharoImage::start_at(image.address, image.folder.path()).await.unwrap();
    assert_eq!(server.eval("1 + 1").await["structuredContent"]["result"], 2);
    assert_eq!(again.requests().len(), 1);
}

#[tokio::test]
async fn the_environment_names_the_port_and_the_flag_another() {
    let image = Image::start().await;
    let port = image.port().to_string();
    let mut named = Server::start_with(&[("PHARO_SIS_PORT", &port)], &[]);
    assert_eq!(named.eval("1 + 1").await["structuredContent"]["result"], 2);
    let mut flagged = Server::start_with(&[("PHARO_SIS_PORT", "x")], &["--port", &port]);
    assert_eq!(flagged.eval("1 + 1").await["structuredContent"]["result"], 2);
    assert_eq!(Server::start_with(&[("PHARO_SIS_PORT", "x")], &[]).end().await, Some(2));
    assert_eq!(Server::start(&["--host", "a/b"]).end().await, Some(2));
    assert_eq!(Server::start(&["--timeout", "30"]).end().await, Some(2));
}

#[tokio::test]
async fn invalid_lines_are_answered_and_do_not_end_the_server() {
    let mut server = Server::start(&["--port", "1"]);
    for (line, code) in [
        ("not JSON", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32700),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
    ] {
        server.say(line).await;
        let answer = server.next().await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    server.say("").await;
    server.request("ping", json!({})).await;
}
