//! Adopting servers and restoring clients' files, and that what is written works.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
};

use serde_json::{Value, json};
use sluice_testkit::{Upstream, mcp_server};

use super::{Home, furnished};
use crate::golden;

const FILES: [&str; 4] =
    [".cursor/mcp.json", ".config/Code/User/mcp.json", ".codex/config.toml", ".claude.json"];

fn texts(home: &Home) -> Vec<String> {
    FILES.iter().map(|file| home.text(file)).collect()
}

#[test]
fn changes_are_shown_before_they_are_written() {
    let home = furnished();
    let before = texts(&home);
    let shown = home.stack(&["adopt", "--all", "--dry-run"]).exits(0);
    assert!(shown.out.contains("a dry run does not start it"), "{}", shown.out);
    assert!(shown.err.contains("is where this program was built"), "{}", shown.err);
    assert_eq!(texts(&home), before);
    assert!(!home.path(".local").exists(), "a dry run writes nothing");
    home.stack(&["--scan"]).exits(0);
    let shown = home.stack(&["adopt", "--all", "--dry-run"]).exits(0);
    golden::check("stack-adopt.txt", &home.steady(&shown.out));
    assert_eq!(texts(&home), before);
    let json = home.stack(&["adopt", "notes", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(json["files"][0]["adopted"], json!(["notes"]), "{json}");
    assert_eq!(json["policies"][0]["name"], "notes", "{json}");
    assert_eq!(json["policies"][0]["hidden_tools"], json!(["delete_note"]), "{json}");
    assert_eq!(json["policies"][0]["denied"], json!([]), "{json}");
    // Without a terminal it must be said.
    let refused = home.stack(&["adopt", "notes"]).exits(1);
    assert!(refused.err.contains("`--yes`"), "{}", refused.err);
    assert_eq!(texts(&home), before);
}

#[test]
fn servers_are_adopted_once_and_restored() {
    let home = furnished();
    let before = texts(&home);
    let done = home.stack(&["adopt", "notes", "shell", "bank", "--yes"]).exits(0);
    assert!(done.err.contains("4 entries go through Sluicegate now"), "{}", done.err);
    assert!(done.err.contains("start Codex again"), "{}", done.err);
    let once = texts(&home);
    assert!(once.iter().all(|text| text.contains("\"wrap\"")), "{once:?}");
    let again = home.stack(&["adopt", "notes", "shell", "bank", "--yes"]).exits(0);
    assert!(again.err.contains("already"), "{}", again.err);
    assert_eq!(texts(&home), once);
    let page = home.stack(&[]).exits(0);
    golden::check("stack-adopted.txt", &home.steady(&page.out));
    let json = home.stack(&["restore", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(json["files"][0]["outcome"], "exact", "{json}");
    let told = home.stack(&["restore", "--dry-run"]).exits(0);
    golden::check("stack-restore.txt", &home.steady(&told.out));
    assert_eq!(texts(&home), once);
    home.stack(&["restore"]).exits(0);
    assert_eq!(texts(&home), before);
    let nothing = home.stack(&["restore"]).exits(0);
    assert!(nothing.err.contains("nothing to restore"), "{}", nothing.err);
}

#[test]
fn programs_are_told_once_and_at_the_end() {
    let home = furnished();
    let told = |arguments: &[&str], code| {
        home.stack(&[&["adopt", "--json"], arguments].concat()).exits(code).json()
    };
    let asked = told(&["notes"], 1);
    assert_eq!(asked["files"].as_array().unwrap().len(), 2, "{asked}");
    assert_eq!(asked["written"], json!([]), "{asked}");
    let none = told(&["remote", "--yes"], 1);
    assert_eq!((&none["files"], &none["refused"][0]["name"]), (&json!([]), &"remote".into()));
    let done = told(&["notes", "remote", "--yes"], 1);
    assert_eq!(done["written"].as_array().unwrap().len(), 2, "{done}");
    assert_eq!(done["refused"].as_array().unwrap().len(), 1, "{done}");
    let nothing =
        json!({"files": [], "policies": [], "refused": [], "written": [], "dry_run": false});
    assert_eq!(told(&["notes", "--yes"], 0), nothing);
}

#[test]
fn numbered_names_are_no_longer_than_names_may_be() {
    let home = Home::new();
    let name = "a-very-long-name-of-28-chars-xyz";
    let entry = |tool: &str| {
        format!(
            r#"{{"mcpServers": {{"{name}": {{"command": "notes-server", "args": ["{tool}"]}}}}}}"#
        )
    };
    home.write(".cursor/mcp.json", &entry("list_notes"));
    home.write(".claude.json", &entry("get_note"));
    home.stack(&["adopt", "--all", "--yes"]).exits(0);
    let adopted = home.text(".cursor/mcp.json") + &home.text(".claude.json");
    assert!(adopted.contains("\"a-very-long-name-of-28-chars-2\""), "{adopted}");
}

#[test]
fn one_client_alone_can_be_adopted() {
    let home = furnished();
    home.stack(&["adopt", "notes", "--client", "cursor", "--yes"]).exits(0);
    assert!(home.text(FILES[0]).contains("wrap") && !home.text(FILES[1]).contains("wrap"));
    let page = home.stack(&[]).exits(0);
    assert!(page.out.contains("adopted in 1 of 2 places only"), "{}", page.out);
    home.stack(&["adopt", "--client", "vscode", "--yes"]).exits(0);
    assert!(home.text(FILES[1]).contains("wrap"));
    for wrong in [
        &["adopt"][..],
        &["adopt", "--client", "x"],
        &["adopt", "nobody"],
        &["adopt", "--all", "notes"],
    ] {
        home.stack(wrong).exits(2);
    }
    let unknown = home.stack(&["adopt", "note"]).exits(2);
    assert!(unknown.err.contains("no server `note` is configured"), "{}", unknown.err);
}

#[test]
fn a_policy_that_is_there_stays() {
    let home = furnished();
    home.stack(&["adopt", "notes", "--yes"]).exits(0);
    let policy = ".local/share/sluice/stack/policies/notes.json";
    let written: Value = serde_json::from_str(&home.text(policy)).unwrap();
    assert_eq!(written["tools"]["delete_note"], json!({"action": "hide"}));
    fs::write(home.path(policy), r#"{"version":"1","default":"deny"}"#).unwrap();
    home.stack(&["restore"]).exits(0);
    let again = home.stack(&["adopt", "notes", "--yes"]).exits(0);
    assert!(again.out.contains("there already, and stays"), "{}", again.out);
    // What it takes away is told of that policy, not of the one that is suggested.
    assert!(again.out.contains("hides: add_note, delete_note, list_notes\n"), "{}", again.out);
    let denied = "denies, beside tools: resources, prompts, sampling, elicitation, roots\n";
    assert!(again.out.contains(denied), "{}", again.out);
    assert_eq!(home.text(policy), r#"{"version":"1","default":"deny"}"#);
}

#[test]
fn an_unusable_policy_is_reported() {
    let home = furnished();
    home.stack(&["adopt", "notes", "--yes"]).exits(0);
    let policy = ".local/share/sluice/stack/policies/notes.json";
    let written = home.text(policy);
    let page = || {
        let json = home.stack(&["--json"]).exits(0).json();
        let all = json["servers"].as_array().unwrap().clone();
        let notes = all.into_iter().find(|server| server["name"] == "notes").unwrap();
        (home.stack(&[]).exits(0).out, notes["advice"].as_str().unwrap().to_owned())
    };
    assert_eq!(page().1, "proceed");
    home.write(policy, "{");
    let (shown, advice) = page();
    assert!(shown.contains("its policy cannot be used: 1:"), "{shown}");
    assert_eq!(advice, "ask first");
    let told = home.stack(&["adopt", "notes", "--yes"]).exits(1);
    assert!(told.err.contains("the policy of `notes` cannot be used: 1:"), "{}", told.err);
    fs::remove_file(home.path(policy)).unwrap();
    let (shown, advice) = page();
    assert!(shown.contains("its policy cannot be used: it is gone"), "{shown}");
    assert_eq!(advice, "ask first");
    let told = home.stack(&["adopt", "notes"]).exits(1);
    assert!(told.err.contains("`--yes` writes it again"), "{}", told.err);
    let told = home.stack(&["adopt", "notes", "--yes"]).exits(0);
    assert!(told.err.contains("has been written again"), "{}", told.err);
    assert_eq!(home.text(policy), written);
    assert_eq!(page().1, "proceed");
}

#[test]
fn servers_that_share_a_name_do_not_share_a_policy() {
    let home = furnished();
    home.write(
        "code/.mcp.json",
        r#"{"mcpServers": {"notes": {"command": "notes-server", "args": ["run_code"]}}}"#,
    );
    home.stack(&["adopt", "notes", "--yes"]).exits(0);
    let policies = ["notes", "notes-2"]
        .map(|name| home.text(&format!(".local/share/sluice/stack/policies/{name}.json")));
    assert!(policies[0].contains("delete_note") && !policies[0].contains("run_code"));
    assert!(policies[1].contains("run_code") && !policies[1].contains("delete_note"));
    assert!(home.text("code/.mcp.json").contains("notes-2.json"));
}

#[test]
fn servers_that_differ_in_variables_do_not_share_a_policy() {
    let home = Home::new();
    let entry = |tools: &str| {
        let env = json!({"TOOLS": tools, "A": "1"});
        json!({"mcpServers": {"notes": {"command": "notes-server", "env": env}}}).to_string()
    };
    home.write(".cursor/mcp.json", &entry("list_notes"));
    home.write(".claude.json", &entry("delete_note"));
    home.write(".gemini/settings.json", &entry("list_notes"));
    home.stack(&["adopt", "--all", "--yes"]).exits(0);
    let policies = ["notes", "notes-2"]
        .map(|name| home.text(&format!(".local/share/sluice/stack/policies/{name}.json")));
    assert_eq!(policies.iter().filter(|text| text.contains("list_notes")).count(), 1);
    assert_eq!(policies.iter().filter(|text| text.contains("delete_note")).count(), 1);
    assert!(!home.path(".local/share/sluice/stack/policies/notes-3.json").exists());
    let json = home.stack(&["--json"]).exits(0).json();
    assert_eq!(json["servers"].as_array().unwrap().len(), 2, "{json}");
    assert_eq!(json["servers"][0]["new"], false, "{json}");
}

#[test]
fn every_server_that_is_not_adopted_is_named() {
    let home = Home::new();
    let url = r#"{"mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}}}"#;
    home.write(".claude.json", url);
    home.write(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}, "off": {"command": "notes-server", "args": ["list_notes"], "disabled": true}}}"#,
    );
    let told = home.stack(&["adopt", "--all", "--yes"]).exits(1);
    for (name, client) in [("far", "Claude Code"), ("far", "Cursor"), ("off", "Cursor")] {
        assert!(told.err.contains(&format!("`{name}` in {client}: ")), "{}", told.err);
    }
    let json = home.stack(&["adopt", "--client", "cursor", "--json", "--yes"]).exits(1).json();
    assert_eq!(json["refused"].as_array().unwrap().len(), 2, "{json}");
    assert!(json["refused"][0]["why"].as_str().unwrap().starts_with("it is disabled"), "{json}");
    // It is left out on purpose, which is not a problem; by its name it is adopted.
    home.write(".claude.json", "{}");
    home.write(".cursor/mcp.json", r#"{"mcpServers": {"off": {"command": "notes-server", "args": ["list_notes"], "disabled": true}}}"#);
    let told = home.stack(&["adopt", "--all", "--yes"]).exits(0);
    assert!(told.err.contains("disabled") && !told.err.contains("already"), "{}", told.err);
    home.stack(&["adopt", "off", "--yes"]).exits(0);
    assert!(home.text(".cursor/mcp.json").contains("wrap"));
}

#[test]
fn servers_that_do_not_answer_are_adopted_only_if_told_so() {
    let home = Home::new();
    let text = r#"{"mcpServers": {"gone": {"command": "no-such-program"}, "odd": {"command": "${input:x}"}}}"#;
    home.write(".cursor/mcp.json", text);
    let refused = home.stack(&["adopt", "--all", "--yes"]).exits(1);
    assert!(refused.err.contains("`no-such-program` is not found"), "{}", refused.err);
    assert!(refused.err.contains("only its client can fill in `${input:x}`"), "{}", refused.err);
    assert!(refused.err.contains("hint: `--unseen`"), "{}", refused.err);
    assert_eq!(home.text(".cursor/mcp.json"), text);
    home.stack(&["adopt", "--all", "--unseen", "--yes"]).exits(0);
    let policy = home.text(".local/share/sluice/stack/policies/gone.json");
    assert!(policy.contains("@destructive"), "{policy}");
    home.stack(&["restore"]).exits(0);
    assert_eq!(home.text(".cursor/mcp.json"), text);
}

#[test]
fn an_invalid_server_cannot_be_adopted_unseen_either() {
    let home = Home::new();
    home.write(".cursor/mcp.json", r#"{"mcpServers": {"num": {"command": 5}}}"#);
    let refused = home.stack(&["adopt", "--all", "--yes"]).exits(1);
    assert!(refused.err.contains("neither a command nor a URL"), "{}", refused.err);
    assert!(!refused.err.contains("--unseen"), "{}", refused.err);
}

#[test]
fn a_file_that_cannot_be_written_stops_no_other() {
    let home = furnished();
    fs::set_permissions(home.path(FILES[0]), fs::Permissions::from_mode(0o444)).unwrap();
    let before = home.text(FILES[0]);
    let done = home.stack(&["adopt", "notes", "--yes"]).exits(1);
    assert!(done.err.contains("its file is read-only\nhint: chmod u+w"), "{}", done.err);
    assert!(!done.out.contains("--- ~/.cursor/mcp.json"), "{}", done.out);
    assert!(done.err.contains("1 entry goes through"), "{}", done.err);
    assert_eq!(home.text(FILES[0]), before);
}

/// A client that starts a server as its file says.
struct Client {
    process: std::process::Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn start(home: &Home, entry: &Value) -> Client {
        let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let none = serde_json::Map::new();
        let env = entry["env"].as_object().unwrap_or(&none);
        let mut process = home
            .command(entry["command"].as_str().unwrap())
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value.as_str().unwrap())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut client = Client { process, output };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = client.ask(1, "initialize", &hello);
        assert!(answer["result"]["protocolVersion"].is_string(), "{answer}");
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, id: u64, tool: &str) -> Value {
        self.ask(id, "tools/call", &json!({"name": tool, "arguments": {}}))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[test]
fn an_adopted_command_works_under_its_policy() {
    let home = Home::new();
    let record = home.path("record").display().to_string();
    let text = json!({"mcpServers": {"notes": {
        "command": "notes-server",
        "args": ["list_notes", "delete_note"],
        "env": {"RECORD": record, "KEY": "sesame"},
    }}});
    home.write("code/.mcp.json", &text.to_string());
    home.stack(&["adopt", "notes", "--yes"]).exits(0);
    let adopted: Value = serde_json::from_str(&home.text("code/.mcp.json")).unwrap();
    let mut client = Client::start(&home, &adopted["mcpServers"]["notes"]);
    let allowed = client.call(2, "list_notes");
    assert_eq!(allowed["result"]["content"][0]["text"], "done", "{allowed}");
    let denied = client.call(3, "delete_note");
    assert!(denied.to_string().contains("[POLICY DENIED]"), "{denied}");
    let list = client.ask(4, "tools/list", &json!({}));
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 1, "{list}");
    drop(client);
    assert!(home.text("record").lines().all(|line| line == "started with KEY=sesame"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopted_url_works_and_its_secrets_are_in_no_argument() {
    let tools = r#"[{"name":"list_notes","inputSchema":{"type":"object"}},{"name":"delete_note","inputSchema":{"type":"object"}}]"#;
    let server = Upstream::start(mcp_server(tools)).await.unwrap();
    let url = format!("{}/5f1e0c7b9a3d4e2f8c6b", server.url());
    tokio::task::block_in_place(|| {
        let home = Home::new();
        let text = json!({"mcpServers": {"notes": {
            "type": "http", "url": url, "headers": {"X-Key": "${OURS:-sesame2}"},
        }}});
        home.write("code/.mcp.json", &text.to_string());
        home.stack(&["adopt", "notes", "--yes"]).exits(0);
        let adopted: Value = serde_json::from_str(&home.text("code/.mcp.json")).unwrap();
        let mut entry = adopted["mcpServers"]["notes"].clone();
        let args = entry["args"].to_string();
        assert!(!args.contains("sesame") && !args.contains("5f1e0c7b"), "{entry}");
        // What a client fills in, it fills in here too.
        entry["env"]["SLUICE_HEADER_X_KEY"] = "sesame2".into();
        let mut client = Client::start(&home, &entry);
        assert!(client.call(2, "list_notes")["result"]["isError"].is_null());
        assert_eq!(client.call(3, "delete_note")["result"]["isError"], true);
    });
    let recorded = server.requests();
    assert!(recorded.iter().all(|request| request.header("x-key") == Some("sesame2")));
    assert!(recorded.iter().all(|request| request.path.ends_with("/5f1e0c7b9a3d4e2f8c6b")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_a_sign_in_is_left_to_its_client() {
    let server = Upstream::start(|_: &sluice_testkit::Recorded| sluice_testkit::Reply::empty(401))
        .await
        .unwrap();
    let url = server.url();
    tokio::task::block_in_place(|| {
        let home = Home::new();
        let text = json!({"mcpServers": {"notes": {"url": url}}}).to_string();
        home.write(".cursor/mcp.json", &text);
        let refused = home.stack(&["adopt", "--all", "--unseen", "--yes"]).exits(1);
        assert!(refused.err.contains("a sign-in that only its client can do"), "{}", refused.err);
        assert_eq!(home.text(".cursor/mcp.json"), text);
    });
}
