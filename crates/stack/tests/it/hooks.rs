//! Hooks in clients' own files: put in beside others, taken out without a trace,
//! and what they answer.

use serde_json::json;
use sluice_stack::{Answer, Client, HookFile, HookQuestion, Hooked};

use crate::machine::{Machine, NOW, restore_all};

const CLAUDE: &str = ".claude/settings.json";
const OTHERS: &str = r#"{
  // Mine.
  "model": "opus",
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "check.sh" }] }, // keep
    ],
  },
}
"#;

fn file(machine: &Machine, client: Client) -> HookFile {
    HookFile::read(client, &machine.places).unwrap().unwrap()
}

fn install(machine: &Machine, client: Client) -> Hooked {
    file(machine, client).install("/usr/bin/sluice --data /d", &machine.backups(), NOW).unwrap()
}

#[test]
fn hooks_stand_beside_others_and_go_without_a_trace() {
    let machine = Machine::with(CLAUDE, OTHERS);
    assert!(matches!(install(&machine, Client::ClaudeCode), Hooked::Done(_)));
    let text = machine.text(CLAUDE);
    for part in [
        "// Mine.",
        "check.sh",
        "// keep",
        "mcp__.*",
        "SessionStart",
        "/usr/bin/sluice --data /d stack hook --check claude-code",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(file(&machine, Client::ClaudeCode).is_installed());
    assert!(matches!(install(&machine, Client::ClaudeCode), Hooked::Already));
    assert_eq!(machine.text(CLAUDE), text);
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert_eq!(machine.text(CLAUDE), OTHERS);
}

#[test]
fn a_hook_is_taken_out_of_a_file_that_others_have_changed() {
    let machine = Machine::with(CLAUDE, OTHERS);
    install(&machine, Client::ClaudeCode);
    let edited = machine.text(CLAUDE).replace("\"opus\"", "\"sonnet\"");
    machine.write(CLAUDE, edited.as_bytes());
    file(&machine, Client::ClaudeCode).uninstall(&machine.backups(), NOW).unwrap();
    let text = machine.text(CLAUDE);
    assert!(!text.contains("sluice") && !text.contains("SessionStart"), "{text}");
    assert!(
        text.contains("sonnet") && text.contains("check.sh") && text.contains("// keep"),
        "{text}"
    );
}

#[test]
fn a_hook_that_was_taken_out_is_not_restored() {
    let machine = Machine::with(CLAUDE, OTHERS);
    install(&machine, Client::ClaudeCode);
    file(&machine, Client::ClaudeCode).uninstall(&machine.backups(), NOW).unwrap();
    assert_eq!(machine.text(CLAUDE), OTHERS);
    let again = file(&machine, Client::ClaudeCode).uninstall(&machine.backups(), NOW).unwrap();
    assert!(matches!(again, Hooked::Already));
    restore_all(&machine);
    assert_eq!(machine.text(CLAUDE), OTHERS);
}

#[test]
fn a_hook_that_is_not_at_all_its_events_is_put_in_anew() {
    let machine = Machine::with(CLAUDE, OTHERS);
    install(&machine, Client::ClaudeCode);
    let whole = machine.text(CLAUDE);
    for (from, to) in [("\"SessionStart\"", "\"Stop\""), ("mcp__.*", "mcp__none"), (": 10", ": 0")]
    {
        machine.write(CLAUDE, whole.replacen(from, to, 1).as_bytes());
        let is_installed = file(&machine, Client::ClaudeCode).is_installed();
        assert_eq!(is_installed, from != "\"SessionStart\"", "{from}");
        assert!(matches!(install(&machine, Client::ClaudeCode), Hooked::Done(_)), "{from}");
        let text = machine.text(CLAUDE);
        assert!(file(&machine, Client::ClaudeCode).is_installed(), "{text}");
        assert_eq!(text.matches("stack hook --check").count(), 2, "{text}");
        assert!(matches!(install(&machine, Client::ClaudeCode), Hooked::Already), "{text}");
    }
}

#[test]
fn taking_a_hook_out_brings_no_older_one_back() {
    let machine = Machine::with(CLAUDE, OTHERS);
    let older = file(&machine, Client::ClaudeCode);
    older.install("/opt/old/sluice --data /d", &machine.backups(), NOW).unwrap();
    install(&machine, Client::ClaudeCode);
    file(&machine, Client::ClaudeCode).uninstall(&machine.backups(), NOW).unwrap();
    let text = machine.text(CLAUDE);
    assert!(!text.contains("sluice") && text.contains("check.sh"), "{text}");
}

#[test]
fn an_empty_list_of_hooks_stays() {
    let before = "{\"hooks\": {\"PreToolUse\": [], \"Stop\": []}}";
    let machine = Machine::with(CLAUDE, before);
    install(&machine, Client::ClaudeCode);
    let edited = machine.text(CLAUDE) + "\n";
    machine.write(CLAUDE, edited.as_bytes());
    file(&machine, Client::ClaudeCode).uninstall(&machine.backups(), NOW).unwrap();
    assert!(machine.text(CLAUDE).contains("\"Stop\": []"), "{}", machine.text(CLAUDE));
}

#[test]
fn a_file_that_only_held_our_hook_goes_with_it() {
    let machine = Machine::new();
    std::fs::create_dir(machine.path(".cursor")).unwrap();
    install(&machine, Client::Cursor);
    let text = machine.text(".cursor/hooks.json");
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["version"], 1);
    assert_eq!(read["hooks"]["beforeMCPExecution"][0]["failClosed"], true);
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert!(!machine.path(".cursor/hooks.json").exists());
}

#[test]
fn clients_that_are_not_used_here_get_no_file() {
    let machine = Machine::new();
    for client in HookFile::CLIENTS {
        assert!(HookFile::read(client, &machine.places).unwrap().is_none(), "{client}");
    }
}

#[test]
fn files_that_hold_something_else_are_refused() {
    for text in ["[]", "{\"hooks\": 1}", "{\"hooks\": {\"PreToolUse\": {}}}", "{"] {
        let machine = Machine::with(CLAUDE, text);
        let refused = file(&machine, Client::ClaudeCode).install("sluice", &machine.backups(), NOW);
        assert!(refused.is_err(), "{text}");
        assert_eq!(machine.text(CLAUDE), text);
    }
}

#[test]
fn calls_are_told_by_what_each_client_says_of_them() {
    let machine = Machine::with(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"my server": {"command": "npx", "args": ["-y", "x"]}, "u": {"url": "https://h/mcp"}}}"#,
    );
    let configured = machine.configured();
    let names = |client, said: serde_json::Value| -> Vec<String> {
        match HookQuestion::read(client, &said) {
            HookQuestion::Call(call) => configured
                .entries()
                .filter(|entry| call.is_of(entry))
                .map(|entry| entry.name.clone())
                .collect(),
            other => vec![format!("{other:?}")],
        }
    };
    let claude = |said| names(Client::ClaudeCode, said);
    assert_eq!(claude(json!({"tool_name": "mcp__my_server__do"})), ["my server"]);
    assert_eq!(claude(json!({"tool_name": "mcp__other__do"})), Vec::<String>::new());
    assert_eq!(claude(json!({"tool_name": "Bash"})), ["Other"]);
    assert_eq!(claude(json!({"hook_event_name": "SessionStart"})), ["Session"]);
    let cursor = |said| names(Client::Cursor, said);
    assert_eq!(cursor(json!({"tool_name": "do", "command": "npx -y x"})), ["my server"]);
    assert_eq!(cursor(json!({"tool_name": "do", "command": "npx"})), ["my server"]);
    assert_eq!(cursor(json!({"tool_name": "do", "url": "https://h/mcp"})), ["u"]);
    assert_eq!(cursor(json!({"tool_name": "do", "mcp_server_name": "user-u"})), ["u"]);
    assert_eq!(cursor(json!({"tool_name": "do"})), Vec::<String>::new());
    // A name alone is not enough where more is said.
    let told = |key: &str, value: &str| {
        cursor(json!({"tool_name": "do", "mcp_server_name": "my server", key: value}))
    };
    assert_eq!(told("command", "npx -y x"), ["my server"]);
    assert_eq!(told("command", "npx '-y' \"x\""), ["my server"]);
    assert_eq!(told("command", "npx -y y"), Vec::<String>::new());
    assert_eq!(told("url", "https://h/mcp"), Vec::<String>::new());
    assert_eq!(
        cursor(json!({"tool_name": "do", "mcp_server_name": "user-other-u"})),
        Vec::<String>::new()
    );
    let gemini = |said| names(Client::Gemini, said);
    assert_eq!(gemini(json!({"tool_name": "mcp_u_do"})), ["u"]);
    assert_eq!(gemini(json!({"tool_name": "do", "mcp_context": {"server_name": "u"}})), ["u"]);
    assert_eq!(gemini(json!({"tool_name": "read_file"})), ["Other"]);
}

#[test]
fn answers_are_in_each_clients_own_form() {
    let ask = Answer::Ask("why".into());
    let check = |client, pointer: &str, expected: &str| {
        let written: serde_json::Value = serde_json::from_str(&ask.to_client_json(client)).unwrap();
        assert_eq!(written.pointer(pointer).unwrap(), expected);
    };
    check(Client::ClaudeCode, "/hookSpecificOutput/permissionDecision", "ask");
    check(Client::ClaudeCode, "/hookSpecificOutput/permissionDecisionReason", "why");
    check(Client::Cursor, "/permission", "ask");
    check(Client::Gemini, "/decision", "deny");
    assert_eq!(Answer::Pass.to_client_json(Client::Cursor), "{}");
    assert_eq!(
        Answer::Tell("t".into()).to_client_json(Client::ClaudeCode),
        r#"{"systemMessage":"t"}"#
    );
}
