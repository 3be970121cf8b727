//! `kill -9` at any instant: what was answered is there, and no more than the
//! limit was let through.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use sluice_policy::Amount;
use sluice_store::{Filter, Kind, Record, Reserved, new_id};

use crate::folder::{Folder, NOW, charge, open, reading, reserve};

const FOLDER: &str = "SLUICE_STORE_CRASH";
const LIMIT: u64 = 2_000;

fn outcome() -> Record {
    Record::new(new_id(NOW), NOW, Kind::Outcome)
}

/// Not a test of its own: the process that [`nothing_answered_is_lost`] kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "how the parent tells the child what to do")]
async fn child() {
    let Ok(path) = std::env::var(FOLDER) else { return };
    let store = open(Path::new(&path));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                sluice_store::commit_on_this_thread();
                loop {
                    let reserved = reserve(&store, charge("eval", 1, LIMIT)).await;
                    if !matches!(reserved, Ok(Reserved::Made { .. })) {
                        return;
                    }
                    store.append_deferred(outcome());
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "made").unwrap();
                    out.flush().unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn nothing_answered_is_lost() {
    for round in 0..10_usize {
        let folder = Folder::new();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crash::child", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let made = |line: &String| line.ends_with("made");
        let mut answered = 0;
        while answered < 20 + round * 37 {
            answered += usize::from(made(&lines.next().unwrap().unwrap()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        answered += lines.map_while(Result::ok).filter(made).count();

        let store = open(folder.path());
        assert_eq!(store.verify().await.unwrap().faults, []);
        // Outcomes may be lost, decisions never.
        let count = async |kind| {
            let filter = Filter { kind: Some(kind), ..Filter::default() };
            store.page(&filter, usize::MAX).await.unwrap().entries.len()
        };
        let decisions = count(Kind::Decision).await;
        assert!(decisions >= answered, "{decisions} {answered}");
        assert!(count(Kind::Outcome).await <= decisions);
        // The counter and the log were written together.
        assert_eq!(reading(&store, "eval").await, Amount::whole(decisions as u64));
    }
}
