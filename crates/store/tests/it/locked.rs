//! Another process that keeps the database to itself: reads and health go on,
//! writes wait or fail, and nothing is lost.

use std::{
    cell::Cell,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

use sluice_policy::Amount;
use sluice_store::{Outcome, Reserved};

use crate::folder::{Folder, charge, entries, reading, record, reserve, wait_until};

const DATABASE: &str = "SLUICE_STORE_LOCK";
/// How long the lock is held at least: longer than a write waits for it.
const HELD: Duration = Duration::from_secs(5);
/// Reads while the lock is held, at least.
const READS: usize = 20;
/// A read that takes longer waits for the lock, however busy the machine.
const LONGEST_READ: Duration = Duration::from_mins(1);

/// Not a test of its own: the process that keeps the lock.
#[test]
#[expect(clippy::disallowed_methods, reason = "how the parent tells the child what to do")]
fn child() {
    let Ok(path) = std::env::var(DATABASE) else { return };
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    writeln!(std::io::stdout(), "\nlocked").unwrap();
    // Until the test says so, or is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
    connection.execute_batch("COMMIT").unwrap();
}

/// The process, and what it goes on to write.
fn lock(folder: &Folder) -> (Child, impl Sized) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["locked::child", "--exact", "--nocapture"])
        .env(DATABASE, folder.database())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().map_while(Result::ok).any(|line| line.ends_with("locked")));
    (child, lines)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_health_go_on_while_another_process_has_the_write_lock() {
    let folder = Folder::new();
    let store = folder.store();
    assert!(matches!(reserve(&store, charge("eval", 1, 100)).await, Ok(Reserved::Made { .. })));
    let (mut child, _lines) = lock(&folder);
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                sluice_store::commit_on_this_thread();
                reserve(&store, charge("eval", 1, 100)).await
            })
        })
        .collect();
    (0..10).for_each(|_| store.append_deferred(record(Outcome::Error)));
    let (begun, mut reads) = (tokio::time::Instant::now(), 0);
    while reads < READS || begun.elapsed() < HELD {
        let read = tokio::time::timeout(LONGEST_READ, entries(&store)).await;
        assert!(!read.unwrap().unwrap().is_empty());
        store.health();
        reads += 1;
        tokio::task::yield_now().await;
    }
    assert!(child.try_wait().unwrap().is_none(), "the lock was held all the time");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let mut made = 1;
    for call in calls {
        match call.await.unwrap() {
            Ok(Reserved::Made { .. }) => made += 1,
            Ok(refused @ Reserved::Refused { .. }) => panic!("{refused:?}"),
            Err(error) => assert!(error.to_string().contains("locked"), "{error}"),
        }
    }
    // It goes on, charges and records agree, and the deferred records are there.
    wait_until(|| store.health().ok).await;
    store.flush().await.unwrap();
    assert!(matches!(reserve(&store, charge("eval", 1, 100)).await, Ok(Reserved::Made { .. })));
    assert_eq!(reading(&store, "eval").await, Amount::whole(made + 1));
    assert_eq!(entries(&store).await.unwrap().len() as u64, made + 1 + 10);
    assert_eq!(store.verify().await.unwrap().faults, []);
}

/// While another process writes, callers wait without blocking their thread: in this test,
/// that thread lets the other process continue.
#[tokio::test]
async fn waiting_for_another_process_holds_no_thread_up() {
    sluice_store::commit_on_this_thread();
    let folder = Folder::new();
    let store = folder.store();
    store.append(record(Outcome::Allow)).await.unwrap();
    let other = folder.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let has_begun = Cell::new(false);
    let second = async {
        // The first is with the store's thread by then, which waits for the lock.
        wait_until(|| store.health().queued == 0).await;
        has_begun.set(true);
        store.append(record(Outcome::Allow)).await
    };
    let release = async {
        wait_until(|| has_begun.get()).await;
        tokio::task::yield_now().await;
        other.execute_batch("COMMIT").unwrap();
    };
    let first = store.append(record(Outcome::Allow));
    let (first, second, ()) = tokio::join!(first, second, release);
    assert_eq!((first, second), (Ok(()), Ok(())));
}
