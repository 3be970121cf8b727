//! `kill -9` at any instant: what was answered is there, and no more than the limit was
//! let through.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use sluice_store::{Filter, Kind, Record, Reserved, new_id};

use crate::fixture::{Fixture, charge, later, open_address, readings, reservation};

const ADDRESS: &str = "SLUICE_STORE_CRASH";
const LIMIT: u64 = 2_000;

/// Not a test of its own: the process that the case below kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "how the parent tells the child what to do")]
async fn child() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let store = open_address(&address);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                sluice_store::commit_on_this_thread();
                loop {
                    let reserved = store.reserve(reservation(vec![charge("eval", 1, LIMIT)])).await;
                    if !matches!(reserved, Ok(Reserved::Made { .. })) {
                        return;
                    }
                    store.append_deferred(Record::new(new_id(later(0)), later(0), Kind::Outcome));
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

/// Kills the child after more and more answers; all rounds charge one counter.
pub(crate) async fn a_killed_process_loses_nothing_that_was_answered(fixture: Fixture) {
    let Some(address) = fixture.address() else { return };
    let mut answered = 0;
    for round in 0..6_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crash::child", "--exact", "--nocapture"])
            .env(ADDRESS, &address)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let made = |line: &String| line.ends_with("made");
        let enough = answered + 20 + round * 37;
        while answered < enough {
            answered += usize::from(made(&lines.next().unwrap().unwrap()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        answered += lines.map_while(Result::ok).filter(made).count();

        fixture.verify().await;
        // Outcomes may be lost, decisions never.
        let count = async |kind| {
            let filter = Filter { kind: Some(kind), ..Filter::default() };
            fixture.store.page(&filter, usize::MAX).await.unwrap().entries.len()
        };
        let decisions = count(Kind::Decision).await;
        assert!(decisions >= answered, "{decisions} {answered}");
        assert!(count(Kind::Outcome).await <= decisions);
        // The counter and the log were written together.
        let reading = readings(&fixture.store, vec![charge("eval", 1, 0)]).await;
        assert_eq!(reading, [decisions as u64]);
    }
}
