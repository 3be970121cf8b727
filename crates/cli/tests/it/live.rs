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
fn a_new_token_is_shown_once_and_a_missing_policy_is_reported() {
    let gateway = Running::demo();
    let plain = ["grant", "create", "demo", "laptop", "--policy", "none", "--expires", "30d"];
    // A name that is misspelt would make a grant that can do nothing.
    let refused = gateway.run(&plain).exits(1);
    assert!(refused.out.is_empty(), "{refused:?}");
    assert!(refused.err.contains("has no policy `none`"), "{}", refused.err);
    assert!(refused.err.contains("its policies: demo"), "{}", refused.err);
    let near = gateway.run(&["grant", "create", "demo", "laptop", "--policy", "demos"]).exits(1);
    assert!(near.err.contains("did you mean `demo`?"), "{}", near.err);
    let grants = gateway.run(&["grant", "list", "--json"]).exits(0).json();
    assert_eq!(grants["grants"].as_array().unwrap().len(), 1, "only that of the demo");
    let create = [plain.as_slice(), &["--allow-missing"]].concat();
    let created = gateway.run(&create).exits(0);
    assert_eq!(created.out.lines().count(), 1);
    assert!(created.out.starts_with("sg_"));
    assert!(created.err.contains("has no policy `none`"), "{}", created.err);
    let desk = ["grant", "create", "demo", "desk", "--policy", "none", "--expires", "30d"];
    let create = [desk.as_slice(), &["--allow-missing", "--json"]].concat();
    let json = gateway.run(&create).exits(0).json();
    let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["id", "label", "servers", "policy", "token", "expires_at"]);
    gateway.run(&["grant", "create", "nobody", "x", "--policy", "p"]).exits(1);
    gateway.run(&["grant", "create", "demo", "--policy", "p"]).exits(2);
}

#[test]
fn a_server_is_edited_and_keeps_its_policies() {
    let gateway = Running::demo();
    let add = ["server", "add", "far", "--url", "https://mcp.example.com/mcp"];
    gateway.run(&[add.as_slice(), &["--header", "X-Key: sesame"]].concat()).exits(0);
    gateway.write("p.json", r#"{"version":"1","default":"deny"}"#);
    gateway.run(&["policy", "put", "far", "p", "p.json"]).exits(0);
    let edit = ["server", "edit", "far", "--url", "https://mcp.example.com/v2"];
    let rest = ["--header", "X-Auth: open", "--remove-header", "x-key", "--timeout", "5s"];
    gateway.run(&[edit.as_slice(), &rest].concat()).exits(0);
    let shown = gateway.run(&["server", "show", "far", "--json"]).exits(0).json();
    assert_eq!(shown["url"], "https://mcp.example.com/v2");
    assert_eq!(
        (&shown["headers"], &shown["timeout"]),
        (&serde_json::json!(["x-auth"]), &"5s".into())
    );
    assert!(gateway.run(&["policy", "show", "far", "p"]).exits(0).out.contains("deny"));
    let log = gateway.run(&["log", "--kind", "admin", "--server", "far"]).exits(0).out;
    assert!(log.contains("edited: url, header `x-auth`, header `x-key`, timeout"), "{log}");
    assert!(!log.contains("open") && !log.contains("sesame"), "{log}");
    gateway.run(&["server", "edit", "far"]).exits(2);
    gateway.run(&["server", "edit", "far", "--url", "ftp://x"]).exits(1);
    gateway.run(&["server", "edit", "nobody", "--timeout", "5s"]).exits(1);
    assert!(
        gateway
            .run(&["server", "edit", "demo", "--timeout", "5s"])
            .exits(1)
            .err
            .contains("declared")
    );
}

#[test]
fn an_earlier_version_of_a_policy_can_be_put_in_force_again() {
    let gateway = Running::demo();
    for (file, text) in [
        ("one.json", r#"{"version":"1","default":"deny"}"#),
        ("two.yaml", "version: '1'\ndefault: allow\n"),
    ] {
        gateway.write(file, text);
        gateway.run(&["policy", "put", "demo", "p", file]).exits(0);
    }
    let history = || gateway.run(&["policy", "history", "demo", "p", "--json"]).exits(0).json();
    let versions = history()["versions"].as_array().unwrap().clone();
    let of = |index: usize| versions[index]["version"].as_str().unwrap().to_owned();
    assert_eq!((versions.len(), &versions[0]["active"]), (2, &true.into()));
    let beginning: String = of(1).chars().take(6).collect();
    gateway.run(&["policy", "rollback", "demo", "p", &beginning]).exits(0);
    let shown = gateway.run(&["policy", "show", "demo", "p"]).exits(0).out;
    assert!(shown.contains(r#""default":"deny""#), "{shown}");
    gateway.run(&["policy", "rollback", "demo", "p", &of(0)]).exits(0);
    assert!(gateway.run(&["policy", "show", "demo", "p"]).exits(0).out.contains("default: allow"));
    let none = gateway.run(&["policy", "rollback", "demo", "p", "zz"]).exits(2);
    assert!(
        none.err.contains("no version `zz`") && none.err.contains("policy history"),
        "{none:?}"
    );
    gateway.run(&["policy", "remove", "demo", "p"]).exits(0);
    gateway.run(&["policy", "show", "demo", "p"]).exits(1);
    // Its versions are kept, so it can come back.
    gateway.run(&["policy", "rollback", "demo", "p", &of(1)]).exits(0);
    gateway.run(&["policy", "show", "demo", "p"]).exits(0);
    let table = gateway.run(&["policy", "history", "demo", "p"]).exits(0).out;
    assert_eq!(table.matches("in force").count(), 1, "{table}");
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

/// With `--limit 0`, nothing of the past is printed.
#[test]
fn only_new_records_can_be_followed() {
    let gateway = Running::demo();
    let none = gateway.run(&["log", "--limit", "0", "--json"]).exits(0).json();
    assert_eq!(none["records"], serde_json::json!([]));
    let arguments = ["log", "--follow", "--limit", "0", "--kind", "admin", "--json"];
    let mut following = gateway.start(&arguments);
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (first, printed) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || first.send(lines.next().unwrap()));
    // Following may begin after any of them.
    let line = (0..).find_map(|number| {
        gateway.grant(&format!("new-{number}"), "demo");
        printed.recv_timeout(std::time::Duration::from_millis(200)).ok()
    });
    let line = line.unwrap();
    assert!(line.contains("grant `new-"), "{line}");
    following.kill().unwrap();
    following.wait().unwrap();
    reading.join().unwrap().unwrap();
}

#[test]
fn without_a_gateway_there_is_nothing_to_ask() {
    let folder = Folder::new();
    for command in ["server list", "grant list", "log", "policy list", "log verify"] {
        let arguments: Vec<_> = ["--data", "none"].into_iter().chain(command.split(' ')).collect();
        let ran = folder.run(&arguments).exits(2);
        assert!(ran.err.contains("data directory `none` does not exist"), "{}", ran.err);
        assert!(ran.err.contains("no gateway is running"), "{}", ran.err);
        assert!(ran.err.contains("hint: start one with `sluice up`"), "{}", ran.err);
    }
    let mut elsewhere = folder.command(BINARY);
    elsewhere.args(["server", "list"]).env("SLUICE_URL", "http://127.0.0.1:1");
    let refused = elsewhere.env("SLUICE_TOKEN", "x").stdin(Stdio::null()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("cannot reach the gateway"));
}

#[test]
fn an_outcome_or_kind_that_does_not_exist_is_refused() {
    let gateway = Running::demo();
    let ran = gateway.run(&["log", "--outcome", "denied"]).exits(2);
    assert!(ran.err.contains("similar value exists: 'deny'"), "{}", ran.err);
    let ran = gateway.run(&["log", "export", "--kind", "decisions"]).exits(2);
    assert!(ran.err.contains("'decision'"), "{}", ran.err);
    gateway.run(&["log", "--outcome", "deny"]).exits(0);
}

#[test]
fn a_call_of_a_server_that_does_not_exist_names_those_that_do() {
    let gateway = Running::demo();
    let (_, token) = gateway.grant("laptop", "demo");
    for arguments in
        [&["call", "nosuch", "x"][..], &["call", "nosuch", "x", "--token", token.as_str()][..]]
    {
        let ran = gateway.run(arguments).exits(2);
        assert!(ran.err.contains("there is no server `nosuch`"), "{}", ran.err);
        assert!(ran.err.contains("servers: demo"), "{}", ran.err);
    }
    let near = gateway.run(&["call", "demos", "x"]).exits(2);
    assert!(near.err.contains("did you mean `demo`?"), "{}", near.err);
}

#[test]
fn definitions_of_a_server_are_a_file_for_the_policy_commands() {
    let gateway = Running::demo();
    let definitions = gateway.run(&["server", "tools", "demo", "--definitions"]).exits(0);
    let assessed = gateway.run(&["server", "tools", "demo", "--json"]).exits(0);
    gateway.write("tools.json", &definitions.out);
    gateway.write("assessed.json", &assessed.out);
    let schema = &definitions.json()["tools"][0]["inputSchema"];
    assert_eq!(schema["type"], "object", "{}", definitions.out);
    let policy =
        r#"{ "version": "1", "default": "deny", "tools": { "@read": { "validate_args": true } } }"#;
    gateway.write("policy.json", policy);
    for file in ["tools.json", "assessed.json"] {
        let explain = ["policy", "explain", "policy.json", "--tool", "list_notes", "--json"];
        let fits = gateway.run(&[explain.as_slice(), &["--tools", file]].concat()).exits(0).json();
        assert_eq!(fits["outcome"], "allow", "{file}: {fits}");
        let wrong = ["--args", r#"{"limit": "many"}"#, "--tools", file];
        let wrong = gateway.run(&[explain.as_slice(), &wrong].concat()).exits(0).json();
        assert_eq!(wrong["rule"], "/tools/@read/validate_args", "{file}: {wrong}");
    }
    // Assessments alone, or schemas under another name, would be judged by name only.
    for unreadable in [
        r#"{"tools": [{"name": "list_notes", "category": "read", "risk": "low"}]}"#,
        r#"[{"name": "list_notes", "input_schema": {}}]"#,
        r#"{"tools": {"list_notes": {}}}"#,
    ] {
        gateway.write("other.json", unreadable);
        for command in [
            &["policy", "explain", "policy.json", "--tool", "list_notes"][..],
            &["policy", "diff", "policy.json", "policy.json"][..],
            &["policy", "test", "policy.json"][..],
        ] {
            let ran = gateway.run(&[command, &["--tools", "other.json"]].concat()).exits(2);
            assert!(ran.err.contains("--definitions"), "{unreadable}: {}", ran.err);
        }
    }
}

#[test]
fn a_policy_is_compared_with_the_tools_of_its_server() {
    let gateway = Running::demo();
    gateway.write("typo.json", r#"{ "version": "1", "default": "deny", "tools": { "list_note": {}, "pay_invoice": {
        "require": [{ "conditions": [{ "path": "args.ammount", "op": "lte", "value": 5 }] }] } } }"#);
    let plain = gateway.run(&["policy", "check", "typo.json", "--json"]).exits(0).json();
    assert_eq!(plain.get("warnings"), None, "nothing is known of the tools: {plain}");
    let check = ["policy", "check", "typo.json", "--server", "demo"];
    let ran = gateway.run(&check).exits(0);
    assert!(ran.out.contains("no tool `list_note`"), "{}", ran.out);
    assert!(ran.out.contains("did you mean `list_notes`?"), "{}", ran.out);
    assert!(ran.out.contains("did you mean `args.amount`?"), "{}", ran.out);
    assert!(ran.out.contains("2 warnings in typo.json"), "{}", ran.out);
    let strict = gateway.run(&[check.as_slice(), &["--strict", "--json"]].concat()).exits(1).json();
    assert_eq!((&strict["ok"], strict["warnings"][0]["line"].as_u64()), (&false.into(), Some(1)));
    let put = ["policy", "put", "demo", "dev", "typo.json"];
    let refused = gateway.run(&[put.as_slice(), &["--strict"]].concat()).exits(1);
    assert!(refused.err.contains("no tool `list_note`"), "{}", refused.err);
    gateway.run(&["policy", "show", "demo", "dev"]).exits(1);
    let warned = gateway.run(&put).exits(0);
    assert!(warned.err.contains("2 warnings") && warned.err.contains("in force"), "{}", warned.err);
    gateway.run(&["policy", "check", "typo.json", "--server", "nosuch"]).exits(1);
}
