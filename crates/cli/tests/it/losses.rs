//! A data directory of which something is missing after `kill -9`: nothing starts on it until
//! somebody says that it may.

use std::fs;

use crate::sluice::Folder;

const TOKEN: &str = "sg_a_token_for_loss_tests";

/// A gateway on which a limit of three calls is used up.
fn killed() -> Folder {
    let folder = Folder::with(
        "policy.json",
        r#"{"version":"1","default":"deny","tools":{"list_notes":{"limits":[{"counter":"all","window":2678400,"max":3}]}}}"#,
    );
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n",
        ),
    );
    let up = folder.up(&[]);
    for code in [0, 0, 0, 1] {
        up.run(&["call", "notes", "list_notes", "--token", TOKEN]).exits(code);
    }
    up.kill();
    folder
}

#[test]
fn a_limit_stays_used_up_after_a_kill() {
    let folder = killed();
    let up = folder.up(&[]);
    up.run(&["call", "notes", "list_notes", "--token", TOKEN]).exits(1);
    up.run(&["log", "verify"]).exits(0);
}

#[test]
fn a_missing_write_ahead_log_must_be_accepted_and_is_recorded() {
    for missing in [&["sluice.db-wal"][..], &["sluice.db", "sluice.db-wal"]] {
        let folder = killed();
        for file in missing {
            fs::remove_file(folder.path().join("data").join(file)).unwrap();
        }
        let wrap = ["wrap", "--policy", "policy.json", "--", "true"];
        for start in [&["up"][..], &wrap] {
            let refused = folder.run(&[&["--data", "data"], start].concat()).exits(2);
            assert!(refused.err.contains("sluice up --accept-loss"), "{refused:?}");
            assert!(refused.err.contains("record"), "{refused:?}");
        }
        let up = folder.up(&["--accept-loss"]);
        up.run(&["log", "verify"]).exits(0);
        let log = up.run(&["log", "--json", "--kind", "admin"]).exits(0);
        assert!(log.out.contains("a loss was accepted with `--accept-loss`"), "{log:?}");
        assert_eq!(up.end(), 0);
        // It need not be accepted again.
        folder.up(&[]).run(&["log", "verify"]).exits(0);
    }
}
