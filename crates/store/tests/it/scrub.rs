//! The check in the background: in steps, beside writes and pruning.

use std::time::Duration;

use sluice_store::{Outcome, ScrubReport, ScrubStep, Store};

use crate::folder::{Folder, record, retention};

async fn append(store: &Store, count: usize) {
    for _ in 0..count {
        store.append_deferred(record(Outcome::Deny));
    }
    store.flush().await.unwrap();
}

/// Ends the pass; returns how many steps that took, and what was found.
async fn finish(store: &Store) -> (usize, ScrubReport) {
    let mut steps = 1;
    while store.scrub().await.unwrap() == ScrubStep::GoOn {
        steps += 1;
    }
    (steps, store.health().scrub)
}

#[tokio::test]
async fn a_pass_reads_the_log_in_parts_beside_writes_and_pruning() {
    let folder = Folder::new();
    let store = folder.store();
    append(&store, 2_500).await;
    let (steps, report) = finish(&store).await;
    assert_eq!((steps, report.checked, report.faults), (3, 2_500, 0));
    assert!(report.finished_at.is_some());
    assert_eq!(store.scrub().await, Ok(ScrubStep::GoOn));
    assert_eq!(store.health().scrub.checked, 1_000);
    // What is written now is left to the next pass, so that each one ends.
    append(&store, 3_000).await;
    let (steps, report) = finish(&store).await;
    assert_eq!((steps, report.faults), (2, 0), "{report:?}");
    // Records are pruned that the pass has not reached yet.
    assert_eq!(store.scrub().await, Ok(ScrubStep::GoOn));
    assert_eq!(store.prune(retention(Duration::ZERO, u64::MAX)).await.unwrap(), 5_500);
    append(&store, 10).await;
    let (_, report) = finish(&store).await;
    assert_eq!((report.faults, report.first_fault), (0, None));
    assert_eq!(store.verify().await.unwrap().faults, []);
}

#[tokio::test]
async fn old_records_and_other_tables_are_checked() {
    let folder = Folder::new();
    let store = folder.store();
    append(&store, 2_500).await;
    store.close().await.unwrap();
    let sql = "UPDATE records SET micros = 1 WHERE seq IN (3, 1400)";
    assert_eq!(folder.connect().execute(sql, []), Ok(2));
    let store = folder.store();
    let (_, report) = finish(&store).await;
    assert_eq!((report.checked, report.faults), (2_500, 2), "{report:?}");
    let first = report.first_fault.unwrap();
    assert!(first.contains("record 3 was changed"), "{first}");
    // It is known until a whole pass finds nothing.
    assert_eq!(store.scrub().await, Ok(ScrubStep::GoOn));
    assert_eq!(store.health().scrub.faults, 1);
    store.close().await.unwrap();
    let mend = "UPDATE records SET micros = NULL WHERE seq IN (3, 1400)";
    assert_eq!(folder.connect().execute(mend, []), Ok(2));
    let store = folder.store();
    assert_eq!(finish(&store).await.1.faults, 0);
    folder.connect().execute("DELETE FROM block_facets", []).unwrap();
    let (_, report) = finish(&store).await;
    assert!(report.first_fault.unwrap().contains("the index of the log"));
}

/// The pages of a disk that loses bits.
#[tokio::test]
async fn pages_that_cannot_be_read_are_a_fault() {
    let folder = Folder::new();
    let store = folder.store();
    append(&store, 4_000).await;
    store.close().await.unwrap();
    let mut bytes = std::fs::read(folder.database()).unwrap();
    let middle = bytes.len() / 3 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(folder.database(), bytes).unwrap();
    let Ok(store) = Store::open(crate::folder::config(folder.path())) else {
        panic!("the newest records are whole")
    };
    let mut found = store.scrub().await;
    while found == Ok(ScrubStep::GoOn) {
        found = store.scrub().await;
    }
    let report = store.health().scrub;
    assert!(report.faults > 0, "{found:?} {report:?}");
}
