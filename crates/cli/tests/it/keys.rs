//! The master key, damaged or missing: the error, and that no new key replaces it.

use std::fs;

use crate::sluice::{BINARY, Folder, Ran};

const START: [&str; 7] =
    ["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

/// A data directory that was in use, and a backup of it.
fn used() -> Folder {
    let folder = Folder::new();
    let up = folder.up(&["--demo"]);
    up.run(&["call", "demo", "list_notes"]).exits(0);
    up.run(&["backup", "copy.tar"]).exits(0);
    assert_eq!(up.end(), 0);
    folder
}

/// All files of the data directory with their contents.
fn contents(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let names = ["sluice.db", "keys/head", "keys/master", "admin-token"];
    let read = |name: &str| fs::read(folder.path().join("data").join(name)).ok();
    names.iter().filter_map(|name| Some(((*name).to_owned(), read(name)?))).collect()
}

fn run(folder: &Folder, arguments: &[&str]) -> Ran {
    Ran::from(folder.command(BINARY).args(arguments).output().unwrap())
}

/// Nothing starts, nothing is changed, and the restore that the message names helps.
fn is_refused_until_restored(folder: &Folder, message: &str) {
    let before = contents(folder);
    folder.write("policy.json", r#"{"version":"1","default":"allow"}"#);
    let wrap = ["--data", "data", "wrap", "--policy", "policy.json", "--", "cat"];
    let trust = ["--data", "data", "doctor", "--trust-clock"];
    // Without a database there is no clock to trust.
    let trust = folder.path().join("data/sluice.db").exists().then_some(&trust[..]);
    for arguments in [&START[..], &wrap].into_iter().chain(trust) {
        let refused = run(folder, arguments).exits(2);
        for part in [message, "keys/master`", "`sluice restore FILE`", "whole data directory away"]
        {
            assert!(refused.err.contains(part), "{part}: {refused:?}");
        }
        assert_eq!(contents(folder), before);
    }
    run(folder, &["--data", "data", "restore", "copy.tar"]).exits(0);
    let up = folder.up(&["--demo"]);
    up.run(&["call", "demo", "list_notes"]).exits(0);
    up.run(&["log", "verify"]).exits(0);
}

#[test]
fn a_damaged_key_is_named_with_the_way_back() {
    let folder = used();
    let key = folder.path().join("data/keys/master");
    let digits = fs::read_to_string(&key).unwrap();
    fs::write(&key, digits.trim().repeat(2)).unwrap();
    is_refused_until_restored(&folder, "is damaged: it must hold 64 hexadecimal digits");
}

#[test]
fn a_missing_key_is_named_and_no_new_one_is_made() {
    let folder = used();
    fs::remove_file(folder.path().join("data/keys/master")).unwrap();
    is_refused_until_restored(&folder, "is missing, the key of `");
    // With the whole folder gone, and with the database gone but not its head.
    let folder = used();
    fs::remove_dir_all(folder.path().join("data/keys")).unwrap();
    is_refused_until_restored(&folder, "is missing, the key of `");
    let folder = used();
    for name in ["keys/master", "sluice.db"] {
        fs::remove_file(folder.path().join("data").join(name)).unwrap();
    }
    is_refused_until_restored(&folder, "is missing, the key of `");
}
