//! `--help`, `--version` and the manual pages.

use std::fs;

use crate::sluice::Folder;

#[test]
fn help_has_examples_and_only_options_that_do_something() {
    let folder = Folder::new();
    for command in ["", "log", "policy check", "grant create", "stack adopt"] {
        let words: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let help = folder.run(&words).exits(0).out;
        assert!(help.contains("\nExamples:\n  sluice"), "{help}");
        assert!(help.contains("--data <DIR>"), "{help}");
    }
    for command in ["classify", "completions", "policy diff", "init", "scan"] {
        let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let help = folder.run(&words).exits(0).out;
        assert!(!help.contains("--data"), "{help}");
    }
    // It does nothing there, but scripts may give it to each command.
    folder.run(&["policy", "schema", "--data", "x"]).exits(0);
    folder.run(&["--data", "x", "policy", "schema"]).exits(0);
}

#[test]
fn the_version_names_the_commit_and_the_features() {
    let folder = Folder::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(folder.run(&["-V"]).exits(0).out, format!("sluice {version}\n"));
    let long = folder.run(&["--version"]).exits(0).out;
    let lines: Vec<_> = long.lines().collect();
    let [first, commit, features, target] = &*lines else { panic!("{long}") };
    assert_eq!(*first, format!("sluice {version}"));
    let commit = commit.strip_prefix("commit: ").unwrap();
    let is_commit = commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_commit || commit == "unknown", "{long}");
    assert!(features.starts_with("features: "), "{long}");
    assert!(target.starts_with("built for: ") && target.contains('-'), "{long}");
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = Folder::new();
    folder.run(&["man", "man"]).exits(0);
    let page = |name: &str| fs::read_to_string(folder.path().join("man").join(name)).unwrap();
    assert!(page("sluice.1").contains("gateway between AI agents and MCP servers"));
    let log = page("sluice-log.1");
    assert!(log.contains("outcome") && log.contains("Examples:"), "{log}");
    page("sluice-policy-check.1");
    assert!(!folder.path().join("man/sluice-supervise.1").exists());
}
