//! Hooks from outside: what a client asks, and what it is answered.

use std::{io::Write as _, process::Stdio};

use serde_json::{Value, json};

use super::{Home, furnished};
use crate::sluice::{BINARY, Ran};

/// Asks as a client does: by the command that is in its own file.
fn ask(home: &Home, command: &str, said: &str) -> Ran {
    let mut process = home
        .command("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    Ran::from(process.wait_with_output().unwrap())
}

fn claude(home: &Home) -> String {
    let settings: Value = serde_json::from_str(&home.text(".claude/settings.json")).unwrap();
    settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap().to_owned()
}

#[test]
fn a_server_that_is_added_is_asked_about() {
    let home = furnished();
    home.write(".claude/settings.json", "{}");
    let done = home.stack(&["hook", "--install"]).exits(0);
    assert!(
        done.err.contains("installed in Claude Code (~/.claude/settings.json)"),
        "{}",
        done.err
    );
    assert!(done.err.contains("installed in Cursor (~/.cursor/hooks.json)"), "{}", done.err);
    let command = claude(&home);
    let call = |tool: &str| {
        json!({"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": {}, "cwd": home.path("code")}).to_string()
    };
    let start = json!({"hook_event_name": "SessionStart", "cwd": home.path("code")}).to_string();
    // What was there is not asked about.
    assert_eq!(ask(&home, &command, &call("mcp__clock__get_time")).exits(0).json(), json!({}));
    assert_eq!(ask(&home, &command, &start).exits(0).json(), json!({}));
    home.write(
        "code/.mcp.json",
        r#"{"mcpServers": {"new": {"command": "notes-server", "args": ["x"]}}}"#,
    );
    let told = ask(&home, &command, &start).exits(0).json();
    assert!(told["systemMessage"].as_str().unwrap().contains("new"), "{told}");
    let asked = ask(&home, &command, &call("mcp__new__x")).exits(0).json();
    assert_eq!(asked["hookSpecificOutput"]["permissionDecision"], "ask", "{asked}");
    let unknown = ask(&home, &command, &call("mcp__elsewhere__x")).exits(0).json();
    assert_eq!(unknown["hookSpecificOutput"]["permissionDecision"], "ask", "{unknown}");
    assert_eq!(ask(&home, &command, &call("Bash")).exits(0).json(), json!({}));
    // Looking at it is not accepting it.
    home.stack(&[]).exits(0);
    assert_ne!(ask(&home, &command, &call("mcp__new__x")).exits(0).json(), json!({}));
    home.stack(&["adopt", "new", "--yes"]).exits(0);
    assert_eq!(ask(&home, &command, &call("mcp__new__x")).exits(0).json(), json!({}));
    home.stack(&["restore"]).exits(0);
    assert!(!home.text(".claude/settings.json").contains("sluice"));
}

#[test]
fn a_server_can_be_accepted_as_it_is_and_not_as_another() {
    let home = furnished();
    home.stack(&["hook", "--install"]).exits(0);
    let hooks: Value = serde_json::from_str(&home.text(".cursor/hooks.json")).unwrap();
    let command = hooks["hooks"]["beforeMCPExecution"][0]["command"].as_str().unwrap().to_owned();
    let said = json!({"hook_event_name": "beforeMCPExecution", "tool_name": "x", "mcp_server_name": "new", "workspace_roots": [home.path("code")]}).to_string();
    let file = |program: &str| {
        home.write(
            ".cursor/mcp.json",
            &format!(r#"{{"mcpServers": {{"new": {{"command": "{program}"}}}}}}"#),
        );
    };
    file("one");
    assert_eq!(ask(&home, &command, &said).exits(0).json()["permission"], "ask");
    let done = home.stack(&["hook", "--accept", "new"]).exits(0);
    assert!(done.err.contains("`new` in ~/.cursor/mcp.json\n  one\n"), "{}", done.err);
    assert_eq!(ask(&home, &command, &said).exits(0).json(), json!({}));
    file("another");
    assert_eq!(ask(&home, &command, &said).exits(0).json()["permission"], "ask");
    // Servers of plug-ins and accounts are in no file.
    let said = said.replace("\"new\"", "\"elsewhere\"");
    assert_eq!(ask(&home, &command, &said).exits(0).json()["permission"], "ask");
    let refused = home.stack(&["hook", "--accept", "elsewhere"]).exits(1);
    assert!(refused.err.contains("`--unlisted` lets one pass"), "{}", refused.err);
    assert_eq!(ask(&home, &command, &said).exits(0).json()["permission"], "ask");
    let refused = home.stack(&["hook", "--accept", "bank", "nwe"]).exits(1);
    assert!(refused.err.contains("no server `nwe`"), "{}", refused.err);
    assert!(refused.err.contains("hint: there is `new`; "), "{}", refused.err);
    let done = home.stack(&["hook", "--unlisted", "--accept", "elsewhere"]).exits(0);
    assert!(done.err.contains("it passes by its name"), "{}", done.err);
    assert_eq!(ask(&home, &command, &said).exits(0).json(), json!({}));
}

#[test]
fn a_project_cannot_pass_by_looking_adopted() {
    let home = furnished();
    home.write(".claude/settings.json", "{}");
    home.stack(&["hook", "--install"]).exits(0);
    let command = claude(&home);
    let call = json!({"tool_name": "mcp__new__x", "cwd": home.path("code")}).to_string();
    let data = home.path(".local/share/sluice").display().to_string();
    let policy = format!("{data}/stack/policies/notes.json");
    let ours = ["wrap", "--data", &data, "--policy", &policy, "--name", "notes", "--", "sh"];
    for (program, args) in [("./sluice", vec!["wrap", "--", "x"]), (BINARY, ours.to_vec())] {
        let text = json!({"mcpServers": {"new": {"command": program, "args": args}}});
        home.write("code/.mcp.json", &text.to_string());
        assert_ne!(ask(&home, &command, &call).exits(0).json(), json!({}), "{text}");
    }
    // One that others have written is not wrapped once more.
    home.write(
        "code/.mcp.json",
        r#"{"mcpServers": {"new": {"command": "./sluice", "args": ["wrap", "--", "x"]}}}"#,
    );
    let refused = home.stack(&["adopt", "new", "--yes", "--unseen"]).exits(1);
    assert!(refused.err.contains("that `adopt` has not written"), "{}", refused.err);
}

#[test]
fn a_check_that_fails_refuses_the_call() {
    let home = furnished();
    let check = format!("{BINARY} stack hook --check claude-code");
    for said in ["", "no JSON"] {
        ask(&home, &check, said).exits(2);
    }
    ask(&home, &format!("{BINARY} stack hook --check zed"), "{}").exits(2);
    home.write(".local/share/sluice/stack/memory.json", "broken");
    ask(&home, &check, r#"{"tool_name": "mcp__a__b"}"#).exits(2);
}

#[test]
fn a_check_that_is_not_told_all_does_not_wait_for_ever() {
    let home = furnished();
    let mut process = home
        .command(BINARY)
        .args(["stack", "hook", "--check", "claude-code"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let open = process.stdin.take();
    let ran = Ran::from(process.wait_with_output().unwrap()).exits(2);
    drop(open);
    assert!(ran.err.contains("the check took too long"), "{}", ran.err);
}

#[test]
fn the_hook_asks_if_a_client_file_cannot_be_read() {
    let home = furnished();
    home.write(".claude/settings.json", "{}");
    home.stack(&["hook", "--install"]).exits(0);
    let command = claude(&home);
    let call = |tool: &str, folder: &str| json!({"tool_name": tool, "cwd": home.path(folder)});
    let clock = call("mcp__clock__get_time", "code").to_string();
    assert_eq!(ask(&home, &command, &clock).exits(0).json(), json!({}));
    home.write("code/.mcp.json", "{\"mcpServers\": {,}}");
    let asked = ask(&home, &command, &clock).exits(0).json();
    let why = asked["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap();
    assert!(why.contains("`~/code/.mcp.json` cannot be read"), "{why}");
    // However it is nested, it does not end the check in another way.
    for (file, text) in [
        (
            "code/.mcp.json",
            format!("{{\"mcpServers\": {{\"a\": {}1{}}}}}", "[".repeat(500), "]".repeat(500)),
        ),
        ("code/.mcp.json", "[".repeat(1 << 20)),
        ("code/.codex/config.toml", format!("a = {}", "[".repeat(1 << 20))),
        ("code/.codex/config.toml", format!("{}a = 1", "a.".repeat(1 << 16))),
        ("code/.codex/config.toml", format!("[{}a]", "a.".repeat(1 << 16))),
    ] {
        home.write(file, &text);
        ask(&home, &command, &clock).exits(0);
    }
    // Nor is one that is turned off for now, or is in another folder of the client's.
    home.write("code/.mcp.json", r#"{"mcpServers": {"new": {"command": "x", "disabled": true}}}"#);
    assert_ne!(ask(&home, &command, &call("mcp__new__x", "code").to_string()).json(), json!({}));
    home.write("code/.mcp.json", "{}");
    home.write("second/.mcp.json", r#"{"mcpServers": {"clock": {"command": "x"}}}"#);
    let mut said = call("mcp__clock__get_time", "code");
    assert_eq!(ask(&home, &command, &said.to_string()).exits(0).json(), json!({}));
    said["workspace_roots"] = json!([home.path("code"), home.path("second")]);
    assert_ne!(ask(&home, &command, &said.to_string()).exits(0).json(), json!({}));
}

#[test]
fn names_in_answers_can_neither_steer_nor_run_anything() {
    let home = furnished();
    home.write(".claude/settings.json", "{}");
    home.stack(&["hook", "--install"]).exits(0);
    let command = claude(&home);
    let long = "n".repeat(300);
    let mut servers = json!({"a b; rm -rf ~": {"command": "x"}, "\u{1b}[31m": {"command": "x"}, "--all": {"command": "x"}, &long: {"command": "x"}});
    for number in 0..20 {
        servers[format!("z{number}")] = json!({"command": "x"});
    }
    home.write("code/.mcp.json", &json!({"mcpServers": servers}).to_string());
    let start = json!({"hook_event_name": "SessionStart", "cwd": home.path("code")}).to_string();
    let told = ask(&home, &command, &start).exits(0).json()["systemMessage"].to_string();
    assert!(told.contains("and 14 more") && !told.contains(&long), "{told}");
    let why = |name: &str| {
        let said = json!({"tool_name": "mcp__x__x", "mcp_context": {"server_name": name}});
        let asked = ask(&home, &command, &said.to_string()).exits(0).json();
        asked["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap().to_owned()
    };
    assert!(why("a b; rm -rf ~").contains("adopt 'a b; rm -rf ~'`"));
    for name in ["--all", "\u{1b}[31m", &long, "elsewhere\u{1b}"] {
        let why = why(name);
        assert!(why.contains("--accept NAME`") && !why.contains('\u{1b}'), "{why}");
    }
}

#[test]
fn several_at_once_lose_nothing_of_what_is_remembered() {
    let home = furnished();
    let names: Vec<_> = (0..8).map(|number| format!("s{number}")).collect();
    let accept = |name: &String| {
        home.command(BINARY)
            .args(["stack", "hook", "--unlisted", "--accept", name])
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = names.iter().map(accept).collect();
    for mut process in running {
        assert!(process.wait().unwrap().success());
    }
    let memory: Value =
        serde_json::from_str(&home.text(".local/share/sluice/stack/memory.json")).unwrap();
    assert_eq!(memory["accepted_names"], json!(names));
}

#[test]
fn hooks_are_installed_once_and_taken_out() {
    let home = furnished();
    home.write(".claude/settings.json", "{\n  // mine\n  \"model\": \"opus\"\n}\n");
    let before = home.text(".claude/settings.json");
    home.stack(&["hook", "--install"]).exits(0);
    let once = home.text(".claude/settings.json");
    home.stack(&["hook", "--install"]).exits(0);
    assert_eq!(home.text(".claude/settings.json"), once);
    let status = home.stack(&["hook"]).exits(0);
    assert!(status.out.contains("Claude Code     installed"), "{}", status.out);
    home.stack(&["hook", "--uninstall"]).exits(0);
    assert_eq!(home.text(".claude/settings.json"), before);
    let empty = Home::new();
    let refused = empty.stack(&["hook", "--install"]).exits(2);
    assert!(refused.err.contains("only these have hooks"), "{}", refused.err);
}
