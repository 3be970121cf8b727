//! Completion scripts, and what they complete.

use crate::sluice::{BINARY, Folder, Ran};

/// The candidates for a line whose last word is being written, as the script for fish asks.
fn complete(folder: &Folder, words: &[&str]) -> Ran {
    let mut command = folder.command(BINARY);
    command.env("SLUICE_COMPLETE", "fish").args(["--", "sluice", "--data", "data"]).args(words);
    Ran::from(command.output().unwrap()).exits(0)
}

#[test]
fn each_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = Folder::new().run(&["completions", shell]).exits(0);
        assert!(ran.out.contains("sluice") && ran.out.contains("SLUICE_COMPLETE"), "{shell}");
    }
    Folder::new().run(&["completions", "tcsh"]).exits(2);
}

#[test]
fn names_of_the_running_gateway_are_completed() {
    let folder = Folder::new();
    let up = folder.up(&["--demo"]);
    up.run(&["grant", "create", "demo", "laptop", "--policy", "demo"]).exits(0);
    let complete = |words: &[&str]| -> Vec<String> {
        let out = complete(&folder, words).out;
        out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    };
    assert_eq!(complete(&["call", ""])[0], "demo");
    assert_eq!(complete(&["call", "demo", "p"]), ["pay_invoice", "ping_demo"]);
    assert_eq!(complete(&["grant", "revoke", "l"]), ["laptop"]);
    assert_eq!(complete(&["log", "--grant", ""]), ["demo", "laptop"]);
    assert_eq!(complete(&["log", "--outcome", "d"]), ["deny"]);
    assert_eq!(complete(&["policy", "show", "demo", "d"]), ["demo"]);
    assert_eq!(complete(&["grant", "create", "demo", "x", "--policy", "d"]), ["demo"]);
    // Commands, but not those that are for this program itself.
    let commands = complete(&["s"]);
    assert!(commands.contains(&"server".to_owned()), "{commands:?}");
    assert!(!commands.contains(&"supervise".to_owned()), "{commands:?}");
    assert!(complete(&["super"]).is_empty(), "{:?}", complete(&["super"]));
}

#[test]
fn without_a_gateway_commands_are_completed_and_nothing_is_printed() {
    let folder = Folder::new();
    assert!(complete(&folder, &["poli"]).out.starts_with("policy\t"));
    let none = complete(&folder, &["grant", "revoke", "l"]);
    assert_eq!((none.out.trim(), none.err.as_str()), ("", ""));
}
