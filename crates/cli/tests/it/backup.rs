//! Backups of a gateway that runs under load, and their way back.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::sluice::Folder;

const TOKEN: &str = "sg_a_token_for_backup_tests";
const LIMIT: usize = 12;

/// A gateway with a limit, a grant of its own and, once it runs, a stored policy.
fn folder() -> Folder {
    let folder = Folder::with(
        "policy.json",
        &format!(
            r#"{{"version":"1","default":"allow","tools":{{"list_notes":{{"limits":[{{"counter":"all","window":2678400,"max":{LIMIT}}}]}}}}}}"#
        ),
    );
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n",
        ),
    );
    folder
}

/// The folders with what a restore has replaced.
fn replaced(folder: &Folder) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path().join("data")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains("replaced-")).collect()
}

#[test]
fn a_backup_under_load_comes_back_whole() {
    let folder = folder();
    let up = folder.up(&[]);
    let call = |tool: &str| up.run(&["call", "notes", tool, "--token", TOKEN]).code;
    for _ in 0..LIMIT {
        assert_eq!(call("list_notes"), 0);
    }
    let created = ["grant", "create", "notes", "kept", "--policy", "p", "--json"];
    let kept = up.run(&created).exits(0).json()["token"].as_str().unwrap().to_owned();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(call("ping_demo"), 0);
                }
            });
        }
        for number in 0..3 {
            let name = format!("{number}.tar");
            let wrote = folder.run(&["--data", "data", "backup", &name]).exits(0);
            assert!(wrote.out.contains("records"), "{wrote:?}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let archive = folder.path().join("2.tar");
    assert_eq!(fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);
    folder.shell("tar -tf 2.tar | grep -x sluice.db").exits(0);
    // A file that exists is not overwritten.
    assert_ne!(folder.run(&["--data", "data", "backup", "2.tar"]).code, 0);
    // While something runs, nothing is replaced.
    let refused = folder.run(&["--data", "data", "restore", "2.tar"]);
    assert!(refused.code != 0 && refused.err.contains("hint: stop it"), "{refused:?}");
    assert_eq!(call("list_notes"), 1);
    assert_eq!(up.end(), 0);

    let restored = folder.run(&["--data", "data", "restore", "2.tar"]).exits(0);
    assert!(restored.out.contains("former contents"), "{restored:?}");
    assert!(replaced(&folder)[0].join("sluice.db").exists());
    assert!(replaced(&folder)[0].join("keys/master").exists());
    let up = folder.up(&[]);
    let call = |token: &str| up.run(&["call", "notes", "list_notes", "--token", token]).code;
    up.run(&["log", "verify"]).exits(0);
    // Counters, grants and keys came back.
    assert_eq!((call(TOKEN), call(&kept)), (1, 0));
    let log = up.run(&["log", "--json", "--kind", "admin"]).exits(0);
    assert!(log.out.contains("restored from a backup"), "{log:?}");
}

#[test]
fn a_backup_comes_back_where_nothing_is() {
    let folder = folder();
    let up = folder.up(&[]);
    up.run(&["call", "notes", "list_notes", "--token", TOKEN]).exits(0);
    folder.run(&["--data", "data", "backup", "a.tar"]).exits(0);
    up.kill();
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    folder.run(&["--data", "data", "restore", "a.tar"]).exits(0);
    assert!(replaced(&folder).is_empty());
    folder.up(&[]).run(&["log", "verify"]).exits(0);
}

#[test]
fn a_damaged_backup_replaces_nothing() {
    let folder = folder();
    let up = folder.up(&[]);
    up.run(&["call", "notes", "list_notes", "--token", TOKEN]).exits(0);
    folder.run(&["--data", "data", "backup", "a.tar"]).exits(0);
    assert_eq!(up.end(), 0);
    let path = folder.path().join("a.tar");
    let whole = fs::read(&path).unwrap();
    let before = fs::read(folder.path().join("data/sluice.db")).unwrap();
    let place = |text: &[u8]| whole.windows(text.len()).position(|part| part == text).unwrap();
    let (cut, flipped) = (whole.len() / 2, place(b"list_notes"));
    let mut changed = whole.clone();
    changed[flipped] ^= 1;
    for bytes in [&whole[..cut], &changed, b"not an archive"] {
        fs::write(&path, bytes).unwrap();
        assert_ne!(folder.run(&["--data", "data", "restore", "a.tar"]).code, 0);
        assert_eq!(fs::read(folder.path().join("data/sluice.db")).unwrap(), before);
        assert!(replaced(&folder).is_empty());
    }
}
