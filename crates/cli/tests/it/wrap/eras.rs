//! A modern client before a command that speaks only the legacy era.

use std::fs;

use serde_json::{Value, json};

use crate::{
    sluice::Folder,
    stdio::SERVER,
    wrap::{ALLOW, client::Client},
};

/// What each request of a client says that can do this.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "new", "version": "1"},
    })
}

fn call(tool: &str, capabilities: &Value) -> Value {
    json!({"name": tool, "arguments": {}, "_meta": meta(capabilities)})
}

/// What the command was told of its client, each time.
fn introductions(record: &str) -> Vec<Value> {
    let recorded = fs::read_to_string(record).unwrap();
    let messages = recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages
        .filter(|message| message["method"] == "initialize")
        .map(|message| message["params"].clone())
        .collect()
}

/// Calls the tool that asks its client, and answers the question.
fn answer_question(client: &mut Client, capabilities: &Value) {
    let asked = client.ask("tools/call", &call("ask", capabilities));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!(request["method"], "sampling/createMessage", "{asked}");
    let mut again = call("ask", capabilities);
    again["requestState"] = asked["result"]["requestState"].clone();
    again["inputResponses"] = json!({key: {"model": "m"}});
    let answer = client.ask("tools/call", &again);
    assert_eq!(answer["result"]["content"][0]["text"], "answered", "{answer}");
}

#[test]
fn a_modern_client_and_a_legacy_command_meet() {
    let folder = Folder::with("policy.json", ALLOW);
    let record = folder.path().join("record").display().to_string();
    let mut client = Client::start_with(&folder, &[("RECORD", &record)], &["--", SERVER]);
    let sampling = json!({"sampling": {}});
    let list = client.ask("tools/list", &json!({"_meta": meta(&sampling)}));
    assert_eq!(list["result"]["tools"][0]["name"], "echo", "{list}");
    assert_eq!(list["result"]["resultType"], "complete", "{list}");
    let answer = client.ask("tools/call", &call("echo", &sampling));
    assert_eq!(answer["result"]["content"][0]["type"], "text", "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");

    // What the command asks becomes a wish, and its call goes on with the answer.
    answer_question(&mut client, &sampling);

    assert_eq!(client.end(), 0);
    let introductions = introductions(&record);
    assert_eq!(introductions.len(), 1, "{introductions:?}");
    assert_eq!(introductions[0]["capabilities"], sampling);
    assert_eq!(introductions[0]["clientInfo"]["name"], "new");
}

/// The command is introduced to its client, not to the gateway, also if the
/// gateway needs its list first.
#[test]
fn a_call_may_be_the_first_message() {
    let policy = r#"{"version":"1","default":"deny","tools":{"@other":{}}}"#;
    let folder = Folder::with("policy.json", policy);
    let record = folder.path().join("record").display().to_string();
    let mut client = Client::start_with(&folder, &[("RECORD", &record)], &["--", SERVER]);
    let answer = client.ask("tools/call", &call("echo", &json!({"roots": {}, "sampling": {}})));
    assert_eq!(answer["result"]["content"][0]["type"], "text", "{answer}");
    assert_eq!(client.end(), 0);
    let introductions = introductions(&record);
    assert_eq!(introductions.len(), 1, "{introductions:?}");
    // The policy lets no server ask for anything.
    assert_eq!(introductions[0]["capabilities"], json!({}));
    assert_eq!(introductions[0]["clientInfo"]["name"], "new");
}

#[test]
fn a_client_without_capabilities_is_refused_and_may_begin_again() {
    let folder = Folder::with("policy.json", ALLOW);
    let record = folder.path().join("record").display().to_string();
    let mut client = Client::start_with(&folder, &[("RECORD", &record)], &["--", SERVER]);
    let mut bare = meta(&json!({}));
    bare.as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    let refused = client.ask("tools/list", &json!({"_meta": bare}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let answer = client.ask("tools/call", &call("echo", &json!({"roots": {}})));
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(client.end(), 0);
    let introductions = introductions(&record);
    assert_eq!(introductions.len(), 1, "{introductions:?}");
    assert_eq!(introductions[0]["capabilities"], json!({"roots": {}}));
}

#[test]
fn a_modern_client_hears_what_changes_at_a_legacy_command() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER, "changing"]);
    let none = json!({});
    let wish = json!({
        "notifications": {"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]},
        "_meta": meta(&none),
    });
    let listening = client.send("subscriptions/listen", &wish);
    let acknowledged = client.read();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let agreed = &acknowledged["params"]["notifications"];
    assert_eq!(agreed["toolsListChanged"], true, "{acknowledged}");
    assert_eq!(agreed["resourceSubscriptions"][0], "file:///a", "{acknowledged}");
    for (tool, method) in [
        ("changed", "notifications/tools/list_changed"),
        ("touched", "notifications/resources/updated"),
    ] {
        let id = client.send("tools/call", &call(tool, &none));
        let (one, other) = (client.read(), client.read());
        let (answer, news) = if one["id"] == id { (one, other) } else { (other, one) };
        assert_eq!(answer["result"]["content"][0]["text"], "told", "{answer}");
        assert_eq!(news["method"], method, "{news}");
        let of = &news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(of, &json!(listening), "{news}");
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn a_client_whose_discovery_is_refused_may_go_on_in_the_modern_era() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER]);
    let refused = client.ask("server/discover", &json!({"_meta": meta(&json!({}))}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    let answer = client.ask("tools/call", &call("echo", &json!({})));
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(client.end(), 0);
}

/// A client that speaks only the modern era begins with `server/discover`.
#[test]
fn a_modern_only_client_is_introduced_by_its_discovery() {
    let folder = Folder::with("policy.json", ALLOW);
    let record = folder.path().join("record").display().to_string();
    let arguments = ["--bridge", "modern", "--", SERVER, "changing"];
    let mut client = Client::start_with(&folder, &[("RECORD", &record)], &arguments);
    let sampling = json!({"sampling": {}});
    let discovered = client.ask("server/discover", &json!({"_meta": meta(&sampling)}));
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28", "{discovered}");
    answer_question(&mut client, &sampling);

    let wish = json!({"notifications": {"toolsListChanged": true}, "_meta": meta(&sampling)});
    client.send("subscriptions/listen", &wish);
    let acknowledged = client.read();
    assert_eq!(acknowledged["params"]["notifications"]["toolsListChanged"], true);
    let id = client.send("tools/call", &call("changed", &sampling));
    let (one, other) = (client.read(), client.read());
    let news = if one["id"] == id { other } else { one };
    assert_eq!(news["method"], "notifications/tools/list_changed", "{news}");

    assert_eq!(client.end(), 0);
    let introductions = introductions(&record);
    assert_eq!(introductions.len(), 1, "{introductions:?}");
    assert_eq!(introductions[0]["capabilities"], sampling);
    assert_eq!(introductions[0]["clientInfo"]["name"], "new");
    let recorded = fs::read_to_string(&record).unwrap();
    assert_eq!(recorded.matches("notifications/initialized").count(), 1, "{recorded}");
}
