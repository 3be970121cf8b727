//! `sluice wrap` as a client sees it that starts a command: lines in, lines out.

mod client;
mod concurrent;
mod end;
mod eras;
mod history;
mod shared;

use std::fs;

use serde_json::json;
use sluice_testkit::Upstream;

use crate::{
    sluice::Folder,
    stdio::{SERVER, until},
    wrap::client::{Client, MODERN},
};

const ALLOW: &str = r#"{"version":"1","default":"allow"}"#;

#[test]
fn calls_are_judged_and_the_rest_passes() {
    let policy = r#"{"version":"1","default":"allow","tools":{"env":{"action":"deny","reason":"Not from here."}}}"#;
    let folder = Folder::with("policy.json", policy);
    let mut client = Client::start(&folder, &["--", SERVER]);
    let hello = client.hello();
    assert_eq!(hello["result"]["serverInfo"]["name"], "sh", "{hello}");
    let pid = client.call("echo")["result"]["content"][0]["text"].clone();
    let denied = client.call("env");
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    assert!(denied.to_string().contains("Not from here."), "{denied}");
    let list = client.ask("tools/list", &json!({}));
    assert_eq!(list["result"]["tools"][0]["name"], "echo", "{list}");
    assert_eq!(client.call("echo")["result"]["content"][0]["text"], pid, "there is one child");
    assert_eq!(client.end(), 0);
    let data = folder.path().join("data");
    assert!(data.join("sluice.db").exists() && !data.join("sluice.db-wal").exists());
}

#[test]
fn hidden_tools_are_in_no_list_and_cannot_be_called() {
    let policy = r#"{"version":"1","default":"allow","tools":{"echo":{"action":"hide"}}}"#;
    let folder = Folder::with("policy.json", policy);
    let mut client = Client::start(&folder, &["--", SERVER]);
    client.hello();
    let list = client.ask("tools/list", &json!({}));
    assert_eq!(list["result"]["tools"], json!([]), "{list}");
    let refused = client.call("echo");
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(refused.to_string().contains("`echo` is not available"), "{refused}");
}

#[test]
fn categories_are_learnt_from_the_one_child() {
    let policy = r#"{"version":"1","default":"deny","tools":{"@other":{}}}"#;
    let folder = Folder::with("policy.json", policy);
    let record = folder.path().join("record").display().to_string();
    let mut client = Client::start_with(&folder, &[("RECORD", &record)], &["--", SERVER]);
    client.hello();
    assert!(client.call("echo")["result"]["isError"].is_null());
    assert_eq!(client.end(), 0);
    let recorded = fs::read_to_string(record).unwrap();
    assert_eq!(recorded.matches("\"initialize\"").count(), 1, "{recorded}");
    assert_eq!(recorded.matches("\"tools/list\"").count(), 1, "{recorded}");
    assert_eq!(recorded.matches("notifications/initialized").count(), 1, "{recorded}");
}

#[test]
fn lines_that_are_no_message_are_answered_and_go_nowhere() {
    let folder = Folder::with("policy.json", ALLOW);
    let record = folder.path().join("record").display().to_string();
    let mut client = Client::start_with(&folder, &[("RECORD", &record)], &["--", SERVER]);
    client.hello();
    let lines = [
        ("garbage", json!(null), -32700),
        ("[]", json!(null), -32600),
        (r#"{"jsonrpc":"2.0","id":9,"method":"ping","method":"tools/call"}"#, json!(null), -32600),
        (r#"{"jsonrpc":"1.0","id":9,"method":"ping"}"#, json!(9), -32600),
    ];
    for (line, id, code) in lines {
        client.write(line);
        let answer = client.read();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert_eq!(answer["id"], id, "{line}: {answer}");
    }
    client.write("");
    client.write(&format!("\"{}\"", "x".repeat(5 << 20)));
    assert_eq!(client.read()["error"]["code"], -32600);
    client.call("echo");
    assert_eq!(client.end(), 0);
    let recorded = fs::read_to_string(record).unwrap();
    for line in recorded.lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let method = message["method"].as_str().unwrap();
        assert!(
            ["initialize", "notifications/initialized", "tools/call", "tools/list"]
                .contains(&method),
            "{line}"
        );
    }
}

#[test]
fn notifications_and_requests_of_the_server_arrive() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER]);
    client.hello();
    let id = client.send("tools/call", &json!({"name":"progress","_meta":{"progressToken":"p"}}));
    let progress = client.read();
    assert_eq!(progress["params"]["progressToken"], "p", "{progress}");
    assert_eq!(client.read()["id"], id);
    let id = client.send("tools/call", &json!({"name":"changed"}));
    let (one, other) = (client.read(), client.read());
    let (answer, news) = if one["id"] == id { (one, other) } else { (other, one) };
    assert_eq!(answer["id"], id, "{answer}");
    assert_eq!(news["method"], "notifications/tools/list_changed", "{news}");
    let id = client.send("tools/call", &json!({"name":"ask"}));
    let asked = client.read();
    assert_eq!(asked["method"], "sampling/createMessage", "{asked}");
    assert_ne!(asked["id"], "ask-1", "the id is the gateway's own");
    client.write(&json!({"jsonrpc":"2.0","id":asked["id"],"result":{}}).to_string());
    let answer = client.read();
    assert_eq!(answer["id"], id);
    assert!(answer.to_string().contains("answered"), "{answer}");
    assert_eq!(client.end(), 0);
    // What the server has requested is a row of its own, and is not said to have failed.
    let rows = folder.run(&["--data", "data", "log"]).exits(0).out;
    let row: Vec<_> = rows.lines().filter(|row| row.contains("sampling/createMessage")).collect();
    assert!(row.len() == 1 && !row[0].contains("unknown"), "{rows}");
    let records = folder.run(&["--data", "data", "log", "--records", "--json"]).exits(0).json();
    let records = records["records"].as_array().unwrap();
    let requests = |method: &str| -> Vec<_> {
        let of_method = records.iter().filter(|record| record["method"] == method);
        of_method.map(|record| record["request"].clone()).collect()
    };
    let sampled = requests("sampling/createMessage");
    assert!(sampled.len() == 1 && requests("tools/call").contains(&sampled[0]), "{sampled:?}");
}

/// Beside the first call, the gateway asks the server for its tools.
#[test]
fn a_question_during_the_first_call_reaches_the_client() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER]);
    client.hello();
    let id = client.send("tools/call", &json!({"name":"asklist"}));
    let asked = client.read();
    assert_eq!(asked["method"], "sampling/createMessage", "{asked}");
    client.write(&json!({"jsonrpc":"2.0","id":asked["id"],"result":{}}).to_string());
    let answer = client.read();
    assert_eq!(answer["id"], id);
    assert!(answer.to_string().contains("answered"), "{answer}");
    assert_eq!(client.end(), 0);
}

#[test]
fn requests_run_beside_each_other_and_can_be_cancelled() {
    let folder = Folder::with("policy.json", ALLOW);
    let record = folder.path().join("record").display().to_string();
    let mut client = Client::start_with(&folder, &[("RECORD", &record)], &["--", SERVER]);
    client.hello();
    let first = client.send("tools/call", &json!({"name":"hold"}));
    let second = client.send("tools/call", &json!({"name":"release"}));
    assert_eq!(client.read()["id"], second);
    assert_eq!(client.read()["id"], first);
    // Nobody answers what was cancelled, be it at the child already or not.
    let hung = client.send("tools/call", &json!({"name":"hang"}));
    until("the child has it", || fs::read_to_string(&record).unwrap().contains("\"hang\""));
    client.notify("notifications/cancelled", &json!({"requestId": hung}));
    until("the child is told of it", || {
        fs::read_to_string(&record).unwrap().contains("notifications/cancelled")
    });
    let early = client.send("tools/call", &json!({"name":"hang"}));
    client.notify("notifications/cancelled", &json!({"requestId": early}));
    client.ask("ping", &json!({}));
    assert_eq!(client.end(), 0);
}

#[test]
fn the_modern_era_is_spoken_too() {
    let policy = r#"{"version":"1","default":"allow","tools":{"env":{"action":"deny","reason":"Not from here."}}}"#;
    let folder = Folder::with("policy.json", policy);
    let record = folder.path().join("record").display().to_string();
    let mut client = Client::start_with(&folder, &[("RECORD", &record)], &["--", SERVER, "modern"]);
    let discovered = client.ask("server/discover", &json!({"_meta": MODERN.clone()}));
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28", "{discovered}");
    let call = |name: &str| json!({"name": name, "arguments": {}, "_meta": MODERN.clone()});
    let answer = client.ask("tools/call", &call("echo"));
    assert!(answer["result"]["content"].is_array(), "{answer}");
    let denied = client.ask("tools/call", &call("env"));
    assert!(denied.to_string().contains("Not from here."), "{denied}");
    let wish = json!({"notifications": {"toolsListChanged": true}, "_meta": MODERN.clone()});
    let listening = client.send("subscriptions/listen", &wish);
    let acknowledged = client.read();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let id = client.send("tools/call", &call("changed"));
    let (one, other) = (client.read(), client.read());
    let (answer, news) = if one["id"] == id { (one, other) } else { (other, one) };
    assert_eq!(answer["id"], id, "{answer}");
    let of = &news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(of, &json!(listening), "{news}");
    let hung = client.send("tools/call", &call("hang"));
    until("the child has it", || fs::read_to_string(&record).unwrap().contains("\"hang\""));
    client.notify("notifications/cancelled", &json!({"requestId": hung}));
    until("the child is told of it", || {
        fs::read_to_string(&record).unwrap().contains("notifications/cancelled")
    });
    assert_eq!(client.end(), 0);
}

#[test]
fn a_client_that_probes_may_fall_back_to_the_older_era() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER]);
    let refused = client.ask("server/discover", &json!({"_meta": MODERN.clone()}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    client.hello();
    assert!(client.call("echo")["result"].is_object());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_is_wrapped_like_a_command() {
    let tools = r#"[{"name":"echo","inputSchema":{"type":"object"}},{"name":"rm","inputSchema":{"type":"object"}}]"#;
    let server = Upstream::start(sluice_testkit::mcp_server(tools)).await.unwrap();
    let policy = r#"{"version":"1","default":"allow","tools":{"rm":{"action":"hide"}}}"#;
    let folder = Folder::with("policy.json", policy);
    let url = server.url();
    tokio::task::block_in_place(|| {
        let variables = [("KEY", "sesame")];
        let arguments = ["--url", &url, "--header", "X-Key: env:KEY"];
        let mut client = Client::start_with(&folder, &variables, &arguments);
        client.hello();
        let list = client.ask("tools/list", &json!({}));
        assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 1, "{list}");
        assert!(client.call("echo")["result"].is_object());
        assert_eq!(client.call("rm")["result"]["isError"], true);
        assert_eq!(client.end(), 0);
    });
    let recorded = server.requests();
    assert!(recorded.iter().all(|request| request.header("x-key") == Some("sesame")));
    assert!(recorded.iter().any(|request| request.method == "DELETE"), "the session is ended");
    assert_eq!(server.bodies_of("tools/call").len(), 1);
}

#[test]
fn problems_are_reported_before_anything_is_started() {
    let folder = Folder::with("policy.json", r#"{"version":"1","defualt":"allow","tols":{}}"#);
    let marked = ["--data", "data", "wrap", "--policy", "policy.json", "--", "touch", "started"];
    let refused = folder.run(&marked).exits(2);
    assert!(refused.err.contains("defualt") && refused.err.contains("tols"), "{}", refused.err);
    assert!(refused.err.contains("3 problems"), "{}", refused.err);
    assert!(!folder.path().join("started").exists() && !folder.path().join("data").exists());
    folder.write("policy.json", ALLOW);
    let missing = ["--data", "data", "wrap", "--policy", "policy.json", "--", "no-such-program"];
    let refused = folder.run(&missing).exits(2);
    assert!(refused.err.contains("`no-such-program` is not found"), "{}", refused.err);
    for wrong in [
        &["wrap", "--", "true"][..],
        &["wrap", "--policy", "policy.json"],
        &["wrap", "--policy", "-", "--", "true"],
        &["wrap", "--policy", "policy.json", "--url", "ftp://x"],
        &["wrap", "--policy", "policy.json", "--url", "http://x", "--", "true"],
    ] {
        let arguments: Vec<_> = ["--data", "data"].iter().chain(wrong).copied().collect();
        folder.run(&arguments).exits(2);
    }
}

#[test]
fn a_client_and_a_command_of_different_eras_meet() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER, "strict"]);
    let hello = client.hello();
    assert!(hello["result"]["protocolVersion"].is_string(), "{hello}");
    let answer = client.call("echo");
    assert_eq!(answer["result"]["content"][0]["type"], "text", "{answer}");
    assert!(answer["result"]["resultType"].is_null(), "{answer}");
    assert_eq!(client.end(), 0);
}
