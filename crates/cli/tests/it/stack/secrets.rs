//! No secret of a client's file is printed or kept, except in the backup.

use std::{fmt::Write as _, fs};

use super::Home;

const CANARIES: [&str; 7] = [
    "canary-env",
    "canary-header",
    "canary-flag",
    "canary-url",
    "canary-user",
    "canary-path0123456789abc",
    "canary-other",
];

fn planted() -> Home {
    let home = Home::new();
    home.write(
        ".claude.json",
        r#"{
  "oauth": { "token": "canary-other" }, // canary-other
  "mcpServers": {
    "a": { "command": "notes-server", "args": ["list_notes", "--api-key", "canary-flag"], "env": { "TOKEN": "canary-env" }, "note": "canary-other" },
    "b": { "url": "http://127.0.0.1:9/canary-path0123456789abc?key=canary-url", "headers": { "X-Key": "canary-header" } },
    "c": { "command": "no-such-program", "args": ["postgres://canary-user:canary-user@db/x", "--password=canary-flag"] },
    "d": { "url": "ftp://canary-user@127.0.0.1/x?canary-url" }
  }
}"#,
    );
    home.write(
        ".codex/config.toml",
        "secret = \"canary-other\" # canary-other\n[mcp_servers.e]\nurl = \"http://127.0.0.1:9/x?k=canary-url\"\nhttp_headers = { X = \"canary-header\" }\n[mcp_servers.f]\ncommand = \"notes-server\"\nargs = [\"list_notes\"]\nenv = { K = \"canary-env\" }\n",
    );
    home.write(".gemini/settings.json", "{\"key\": \"canary-other\", canary-other}");
    home
}

#[test]
fn secrets_are_never_printed_and_kept_only_in_the_backup() {
    let home = planted();
    let mut said = String::new();
    for arguments in [
        &[][..],
        &["--json"],
        &["--scan"],
        &["--scan", "--json"],
        &["adopt", "--all", "--dry-run"],
        &["adopt", "--all", "--unseen", "--dry-run"],
        &["adopt", "--all", "--unseen", "--dry-run", "--json"],
        &["adopt", "--all", "--unseen", "--yes"],
        &[],
        &["--json"],
        &["hook", "--install"],
        &["restore", "--dry-run"],
        &["restore", "--dry-run", "--json"],
        &["restore"],
    ] {
        let ran = home.stack(arguments);
        let _ = write!(said, "{arguments:?}\n{}{}", ran.out, ran.err);
    }
    assert!(said.contains("entries go through Sluicegate now"), "{said}");
    for canary in CANARIES {
        assert!(!said.contains(canary), "{canary}:\n{said}");
    }
    let kept = files(&home.path(".local"));
    assert!(kept.iter().any(|(path, _)| path.contains("/backups/")));
    for (path, text) in kept
        .iter()
        .filter(|(path, _)| !path.ends_with("/original") && !path.ends_with("/rewritten"))
    {
        for canary in CANARIES {
            assert!(!text.contains(canary), "{canary} in {path}");
        }
    }
}

#[test]
fn a_url_in_a_variable_is_in_no_message() {
    let home = Home::new();
    home.write("policy.json", r#"{"version":"1","default":"deny"}"#);
    let policy = home.path("policy.json").display().to_string();
    let arguments = ["wrap", "--policy", &policy, "--url", "env:SECRET_URL"];
    let ran = home
        .command(crate::sluice::BINARY)
        .args(arguments)
        .env("SECRET_URL", "http://canary:canary@h/")
        .output()
        .unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert!(error.contains("what `env:SECRET_URL` names is not the URL of a server"), "{error}");
    assert!(!error.contains("canary"), "{error}");
}

/// All files below a folder, with what they hold.
fn files(folder: &std::path::Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for child in fs::read_dir(folder).unwrap() {
        let path = child.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
    found
}
