//! Running a gateway: trying the demo, editing files under it, and what keeps it
//! from starting.

use std::fs;

use crate::sluice::Folder;

#[test]
fn the_demo_allows_denies_hides_limits_and_holds() {
    let folder = Folder::new();
    let up = folder.up(&["--demo"]);
    let call = |rest: &[&str]| up.run(&[&["call", "demo"], rest].concat());
    assert!(call(&["list_notes"]).exits(0).out.contains("note-1: Welcome"));
    let denied = call(&["delete_note", "--args", r#"{"id": "note-1"}"#]).exits(1);
    assert_eq!(denied.err, "[POLICY DENIED] tool `delete_note` is not available\n");
    let held =
        call(&["pay_invoice", "--args", r#"{"invoice": "INV-1003", "amount": 250}"#]).exits(1);
    assert!(held.err.starts_with("[APPROVAL REQUIRED]"), "{held:?}");
    for _ in 0..3 {
        assert!(call(&["ping_demo"]).exits(0).out.starts_with("pong"));
    }
    let limited = call(&["ping_demo"]).exits(1);
    assert!(limited.err.starts_with("[POLICY DENIED] "), "{limited:?}");
    let log = up.run(&["log", "--json", "--tool", "delete_note"]).exits(0);
    assert!(log.out.contains("(hidden)") && !log.out.contains("note-1"), "{log:?}");
    assert_eq!(up.end(), 0);
    // All of it is in the one file, as whoever copies that would expect.
    assert!(!folder.path().join("data/sluice.db-wal").exists());
}

#[test]
fn an_edit_takes_effect_and_a_bad_one_does_not() {
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"deny"}"#);
    folder.write(
        "sluice.toml",
        "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
         [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"sg_a_token_for_reload_tests\"\n",
    );
    let up = folder.up(&[]);
    let call =
        || up.run(&["call", "notes", "list_notes", "--token", "sg_a_token_for_reload_tests"]).code;
    assert_eq!(call(), 1);
    folder.write("policy.json", r#"{"version":"1","default":"allow"}"#);
    up.wait_until("the edit is in force", || call() == 0);
    folder.write("policy.json", r#"{"version":"1","default":"perhaps"}"#);
    up.wait_until("the problem is shown", || {
        let listed = up.run(&["policy", "list"]);
        listed.err.contains("perhaps") || listed.err.contains("default")
    });
    assert!(up.run(&["server", "list"]).exits(0).err.contains("policy.json"));
    assert_eq!(call(), 0);
    folder.write("policy.json", r#"{"version":"1","default":"deny"}"#);
    up.wait_until("the next good edit is in force", || call() == 1);
    assert_eq!(up.end(), 0);
}

#[test]
fn what_cannot_be_started_says_why() {
    let folder = Folder::with("sluice.toml", "[servers.x]\nurl = \"nonsense\"\n");
    let ran = folder.run(&["--data", "data", "up"]).exits(2);
    assert!(ran.err.contains("sluice.toml") && ran.err.contains("url"), "{ran:?}");
    let folder = Folder::new();
    let up = folder.up(&[]);
    let taken = up.listen.to_string();
    let ran = folder
        .run(&["--data", "other", "up", "--listen", &taken, "--admin", "127.0.0.1:0"])
        .exits(2);
    assert!(ran.err.contains("--listen"), "{ran:?}");
    let ran = folder
        .run(&["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .exits(2);
    assert!(ran.err.contains("another gateway"), "{ran:?}");
    drop(up);
    fs::remove_file(folder.path().join("data/sluice.db-wal")).unwrap();
    folder.write("data/sluice.db", "this is no database, whatever its name may say");
    let ran = folder
        .run(&["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .exits(2);
    assert!(ran.err.contains("sluice.db"), "{ran:?}");
    let ran = folder.run(&["--data", "gone", "server", "list"]).exits(2);
    assert!(ran.err.contains("no gateway is running"), "{ran:?}");
}
