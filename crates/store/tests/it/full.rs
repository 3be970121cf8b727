//! A disk that is full: calls are refused, the process lives, nothing is damaged.
//!
//! The disk is played by the limit on the size of files that a process can be given.

use std::{io::Write as _, path::Path, process::Command};

use crate::folder::{Folder, charge, open, reserve};

const FOLDER: &str = "SLUICE_STORE_FULL";
/// In blocks of 512 bytes.
const SIZE: u32 = 2_000;

/// Not a test of its own: the process that [`a_full_disk_is_reported_and_damages_nothing`] limits.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how the parent tells the child what to do")]
async fn child() {
    let Ok(path) = std::env::var(FOLDER) else { return };
    let store = open(Path::new(&path));
    let mut made = 0;
    let error = loop {
        let many = (0..100).map(|_| reserve(&store, charge("eval", 1, 1 << 40)));
        let mut failed = None;
        for reserved in many {
            match reserved.await {
                Ok(_) => made += 1,
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            break error;
        }
    };
    assert!(!store.health().ok);
    writeln!(std::io::stdout(), "\n{made} made, then: {error}").unwrap();
}

#[tokio::test]
async fn a_full_disk_is_reported_and_damages_nothing() {
    let folder = Folder::new();
    let limited =
        format!("trap '' XFSZ; ulimit -f {SIZE}; exec \"$0\" full::child --exact --nocapture");
    let output = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let made = said.lines().find_map(|line| line.split_once(" made, then: the store failed: "));
    let made: u64 = made.unwrap().0.parse().unwrap();
    assert!(made > 0, "{said}");
    let verified = open(folder.path()).verify().await.unwrap();
    assert_eq!((verified.records, verified.faults.len()), (made, 0));
}
