//! Files of each client as data: what they hold, what adopting makes of them, and
//! that restoring gives back every byte.
//!
//! A case is a folder: `path` says where the file is below the home folder, `before`
//! is the file, `after` what it becomes, `said` what is told of it. The last two
//! are written anew when `SLUICE_GOLDEN=write` is set.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use sluice_stack::{Client, Configured, Transport};

use crate::machine::{Machine, adopt_all, files_below, front, plans, restore_all};

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let paths = files_below(&folder).into_iter().filter(|file| file.ends_with("path"));
    paths.map(|path| path.parent().unwrap().to_owned()).collect()
}

fn check(expected: &Path, actual: &str) {
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(expected, actual).unwrap();
    }
    let written = fs::read_to_string(expected).unwrap_or_default();
    assert_eq!(written, actual, "{}", expected.display());
}

#[test]
fn files_are_read_adopted_and_restored() {
    let cases = cases();
    assert!(cases.len() > 15, "the cases are found");
    for case in cases {
        let path = fs::read_to_string(case.join("path")).unwrap().trim().to_owned();
        let ending = if path.ends_with("toml") { "toml" } else { "json" };
        let before = fs::read(case.join(format!("before.{ending}"))).unwrap();
        let machine = Machine::new();
        machine.write(&path, &before);
        let configured = machine.configured();
        assert!(configured.problems.is_empty(), "{case:?}: {:?}", configured.problems);
        let client = case.parent().unwrap().file_name().unwrap().to_str().unwrap();
        for file in &configured.files {
            assert_eq!(file.client, Client::from_id(client).unwrap(), "{case:?}");
        }
        let said = told(&configured);
        assert!(!said.contains("CANARY"), "{case:?}: {said}");
        check(&case.join("said"), &said);
        let refused = adopt_all(&machine);
        check(&case.join(format!("after.{ending}")), &machine.text(&path));
        // Twice is once.
        let once = machine.text(&path);
        let again = adopt_all(&machine);
        assert_eq!(machine.text(&path), once, "{case:?}");
        let servers = configured.entries().count();
        let already = again.iter().filter(|said| said.contains("already")).count();
        assert_eq!(already, servers - refused.len(), "{case:?}: {again:?}");
        // The same servers are seen, now held.
        let held = machine.configured();
        for (old, new) in configured.entries().zip(held.entries()) {
            assert_eq!(old.transport, new.transport, "{case:?}");
            assert_eq!(old.identity(), new.identity(), "{case:?}");
        }
        assert_eq!(restore_all(&machine), Vec::<String>::new(), "{case:?}");
        assert_eq!(machine.text(&path).as_bytes(), before, "{case:?}");
    }
}

/// What is told of a file, and of adopting it.
fn told(configured: &Configured) -> String {
    let mut text = String::new();
    for file in &configured.files {
        for entry in &file.entries {
            let off = if entry.is_disabled { " (disabled)" } else { "" };
            let names = entry.transport.names().join(" ");
            let names = if names.is_empty() { names } else { format!(" [{names}]") };
            let kind = entry.transport.kind();
            let _ = writeln!(
                text,
                "{}{off}: {kind} {}{names}",
                entry.name,
                entry.transport.to_masked()
            );
        }
        let adoption = file.adopt(&plans(&file.entries), &front());
        for (entry, error) in &adoption.refused {
            let _ = writeln!(text, "{}: {}", entry.name, error.to_string().lines().next().unwrap());
        }
        text += &adoption.diff;
    }
    text
}

#[test]
fn secrets_are_kept_for_the_server_that_uses_them() {
    let machine = Machine::with(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"a": {"url": "https://h/?k=v1", "headers": {"X": "v2"}}}}"#,
    );
    adopt_all(&machine);
    let configured = machine.configured();
    let entry = configured.entries().next().unwrap();
    let Transport::Url { url, headers } = &entry.transport else { panic!("{entry:?}") };
    assert_eq!((url.expose(), headers[0].1.expose()), ("https://h/?k=v1", "v2"));
    // Arguments are seen by every user of a machine.
    let args = machine.text(".cursor/mcp.json");
    let args = args.split("\"args\"").nth(1).unwrap().split(']').next().unwrap();
    assert!(!args.contains("v1") && !args.contains("v2"), "{args}");
}
