//! Commands on a running gateway: what they change holds when they end.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::{
    running::Running,
    sluice::{BINARY, Folder},
};

const ALLOW: &str = "version: \"1\"\ndefault: allow\n";
const DENY: &str = "{\"version\": \"1\",\r\n\"default\": \"deny\"}";

#[test]
fn a_policy_holds_as_soon_as_it_is_put() {
    let gateway = Running::demo();
    let (_, token) = gateway.grant("laptop", "dev");
    // Its policy is not there yet.
    gateway.call(&token).exits(1);
    gateway.write("dev.yaml", ALLOW);
    gateway.run(&["policy", "put", "demo", "dev", "dev.yaml"]).exits(0);
    gateway.call(&token).exits(0);
    assert_eq!(gateway.run(&["policy", "show", "demo", "dev"]).exits(0).out, ALLOW);
    gateway.write("dev.json", DENY);
    let put = gateway.run(&["policy", "put", "demo", "dev", "dev.json", "--json"]);
    assert_eq!(put.exits(0).json()["format"], "json");
    gateway.call(&token).exits(1);
    assert_eq!(gateway.run(&["policy", "show", "demo", "dev"]).exits(0).out, DENY);
    let list = gateway.run(&["policy", "list"]).exits(0).out;
    assert!(list.contains("dev") && list.contains("stored"), "{list}");
}

#[test]
fn a_policy_with_problems_is_not_put() {
    let gateway = Running::demo();
    gateway.write("bad.json", r#"{"version": "1", "default": "maybe"}"#);
    let drawn = gateway.run(&["policy", "put", "demo", "dev", "bad.json"]).exits(1);
    assert!(drawn.err.contains("bad.json:1:"), "{}", drawn.err);
    let listed = gateway.run(&["policy", "put", "demo", "dev", "bad.json", "--json"]).exits(1);
    assert_eq!(listed.json()["ok"], false);
    gateway.run(&["policy", "show", "demo", "dev"]).exits(1);
    // What the file declares is changed there.
    gateway.write("good.json", DENY);
    let declared = gateway.run(&["policy", "put", "demo", "demo", "good.json"]).exits(1);
    assert!(declared.err.contains("declared"), "{}", declared.err);
}

#[test]
fn a_token_is_worth_something_until_it_is_rotated_or_revoked() {
    let gateway = Running::demo();
    let (id, token) = gateway.grant("laptop", "demo");
    gateway.call(&token).exits(0);
    let rotated = gateway.run(&["grant", "rotate", &id]).exits(0);
    let fresh = rotated.out.trim_end();
    assert!(rotated.err.contains("mcpServers") && rotated.err.contains("/mcp/demo"));
    assert_ne!(gateway.call(&token).code, 0);
    gateway.call(fresh).exits(0);
    gateway.run(&["grant", "revoke", &id]).exits(0);
    assert_ne!(gateway.call(fresh).code, 0);
    let list = gateway.run(&["grant", "list", "--json"]).exits(0).json();
    let state = |id: &str| {
        let grants = list["grants"].as_array().unwrap();
        grants.iter().find(|grant| grant["id"] == id).unwrap()["state"].clone()
    };
    assert_eq!(state(&id), "revoked");
    assert_eq!(state("file:demo"), "valid");
}

#[test]
fn a_new_grant_is_shown_once_and_its_gaps_are_told() {
    let gateway = Running::demo();
    let create = ["grant", "create", "demo", "laptop", "--policy", "none", "--expires", "30d"];
    let created = gateway.run(&create).exits(0);
    assert_eq!(created.out.lines().count(), 1);
    assert!(created.out.starts_with("sg_"));
    assert!(created.err.contains("has no policy `none`"), "{}", created.err);
    let json = gateway.run(&[create.as_slice(), &["--json"]].concat()).exits(0).json();
    let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["id", "label", "servers", "policy", "token", "expires_at"]);
    gateway.run(&["grant", "create", "nobody", "x", "--policy", "p"]).exits(1);
    gateway.run(&["grant", "create", "demo", "--policy", "p"]).exits(2);
}

#[test]
fn servers_come_and_go() {
    let gateway = Running::demo();
    let add = ["server", "add", "far", "--url", "https://mcp.example.com/mcp"];
    gateway.run(&[add.as_slice(), &["--header", "X-Key: sesame"]].concat()).exits(0);
    let again = gateway.run(&add).exits(1);
    assert!(again.err.contains("there already"), "{}", again.err);
    let shown = gateway.run(&["server", "show", "far"]).exits(0).out;
    assert!(shown.contains("x-key") && !shown.contains("sesame"), "{shown}");
    let list = gateway.run(&["server", "list", "--json"]).exits(0).json();
    let names: Vec<_> =
        list["servers"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["demo", "far"]);
    assert_eq!(list["problems"].as_array().unwrap().len(), 0);
    gateway.run(&["server", "remove", "far"]).exits(0);
    gateway.run(&["server", "show", "far"]).exits(1);
    gateway.run(&["server", "remove", "demo"]).exits(1);
    let tools = gateway.run(&["server", "tools", "demo"]).exits(0).out;
    assert!(tools.contains("delete_note") && tools.contains("destructive"), "{tools}");
    gateway.run(&["server", "refresh", "demo"]).exits(0);
}

#[test]
fn the_log_says_what_was_done() {
    let gateway = Running::demo();
    let (id, token) = gateway.grant("laptop", "demo");
    gateway.call(&token).exits(0);
    let hidden = ["call", "demo", "delete_note", "--args", r#"{"id": "x"}"#, "--token", &token];
    gateway.run(&hidden).exits(1);
    let denied = gateway.run(&["log", "--grant", &id, "--kind", "decision", "--json"]).exits(0);
    let outcomes: Vec<_> = denied.json()["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (record["tool"].clone(), record["outcome"].clone()))
        .collect();
    assert_eq!(
        outcomes,
        [("list_notes".into(), "allow".into()), ("delete_note".into(), "hide".into())]
    );
    let table = gateway.run(&["log", "--since", "1h"]).exits(0).out;
    assert!(table.starts_with("TIME") && table.contains("grant `laptop` created"), "{table}");
    let whole = gateway.run(&["log", "verify", "--json"]).exits(0).json();
    assert_eq!(whole["ok"], true);
    let export = gateway.run(&["log", "export", "--tool", "list_notes", "--kind", "decision"]);
    assert_eq!(export.exits(0).out.lines().count(), 1);
    let csv = gateway.run(&["log", "export", "--format", "csv", "--outcome", "hide"]).exits(0).out;
    assert!(csv.starts_with("id,at,kind,") && csv.contains(",delete_note,hide,"), "{csv}");
    gateway.run(&["log", "--since", "soon"]).exits(2);
}

#[test]
fn the_log_can_be_followed() {
    let gateway = Running::demo();
    gateway.grant("one", "demo");
    let mut following = gateway.start(&["log", "--follow", "--kind", "admin", "--json"]);
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("gateway started"));
    let before = lines.next().unwrap();
    assert!(before.contains("grant `one` created"), "{before}");
    gateway.grant("two", "demo");
    let after = lines.next().unwrap();
    assert!(after.contains("grant `two` created"), "{after}");
    following.kill().unwrap();
    following.wait().unwrap();
}

#[test]
fn without_a_gateway_there_is_nothing_to_ask() {
    let folder = Folder::new();
    for command in ["server list", "grant list", "log", "policy list", "log verify"] {
        let arguments: Vec<_> = ["--data", "none"].into_iter().chain(command.split(' ')).collect();
        let ran = folder.run(&arguments).exits(2);
        assert!(ran.err.contains("no gateway is running"), "{}", ran.err);
        assert!(ran.err.contains("hint: start one with `sluice up`"), "{}", ran.err);
    }
    let mut elsewhere = folder.command(BINARY);
    elsewhere.args(["server", "list"]).env("SLUICE_URL", "http://127.0.0.1:1");
    let refused = elsewhere.env("SLUICE_TOKEN", "x").stdin(Stdio::null()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("cannot reach the gateway"));
}
