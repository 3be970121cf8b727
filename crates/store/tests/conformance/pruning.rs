//! Pruning: what goes, and how the rest still proves itself.

use std::time::Duration;

use sluice_store::{Filter, Kind, Record, new_id};

use crate::fixture::{Fixture, later};

const COUNT: i64 = 2_500;

/// One record a second, by two writers where there can be two.
async fn fill(fixture: &Fixture) {
    let mut stores = vec![fixture.store.clone()];
    stores.extend(fixture.other_process());
    for number in 1..=COUNT {
        let record = Record::new(new_id(later(number)), later(number), Kind::Decision);
        let tool = if number < 500 { "old" } else { "new" };
        let message = Some(format!("{number:0200}"));
        let which = usize::try_from(number).unwrap() % stores.len();
        stores[which].append_deferred(Record { message, tool: Some(tool.into()), ..record });
        if number % 100 == 0 {
            for store in &stores {
                store.flush().await.unwrap();
            }
        }
    }
    fixture.advance(COUNT);
}

async fn count(fixture: &Fixture, filter: Filter) -> usize {
    fixture.store.page(&filter, usize::MAX).await.unwrap().entries.len()
}

pub(crate) async fn old_records_go_and_the_rest_verifies(fixture: Fixture) {
    fill(&fixture).await;
    let keep = Duration::from_secs(700);
    let pruned = fixture.store.prune(keep, u64::MAX).await.unwrap();
    assert!((1_700..=1_800).contains(&pruned), "{pruned}");
    let verified = fixture.store.verify().await.unwrap();
    assert_eq!(verified.faults, []);
    assert_eq!(verified.pruned_through, i64::try_from(pruned).ok());
    // A second time there is nothing to do, and nothing is recorded.
    let before = fixture.entries().await;
    assert_eq!(fixture.store.prune(keep, u64::MAX).await.unwrap(), 0);
    assert_eq!(fixture.entries().await, before);
}

pub(crate) async fn anchors_grow_old_and_are_pruned_too(fixture: Fixture) {
    fill(&fixture).await;
    let keep = Duration::from_secs(700);
    fixture.store.prune(keep, u64::MAX).await.unwrap();
    fixture.advance(10_000);
    fixture.store.prune(keep, u64::MAX).await.unwrap();
    let left = fixture.verify().await;
    assert!(left < 5, "{left}");
    // A writer whose whole chain was pruned goes on.
    fixture.store.append(Record::new(new_id(later(0)), later(0), Kind::Auth)).await.unwrap();
    assert_eq!(fixture.verify().await, left + 1);
    if let Some(other) = fixture.other_process() {
        other.append(Record::new(new_id(later(0)), later(0), Kind::Auth)).await.unwrap();
        assert_eq!(fixture.verify().await, left + 2);
    }
}

pub(crate) async fn a_log_that_is_too_large_loses_its_oldest_records(fixture: Fixture) {
    fill(&fixture).await;
    let forever = Duration::from_secs(1 << 40);
    assert_eq!(fixture.store.prune(forever, 1 << 40).await.unwrap(), 0);
    let pruned = fixture.store.prune(forever, 600_000).await.unwrap();
    let left = fixture.verify().await;
    assert!(pruned > 0 && left > 100, "{pruned} {left}");
    // What can never fit leaves the newest, and comes to an end.
    fixture.store.prune(forever, 0).await.unwrap();
    assert!(fixture.verify().await < 10);
}

pub(crate) async fn filters_find_what_is_left(fixture: Fixture) {
    fill(&fixture).await;
    fixture.store.prune(Duration::from_mins(5), u64::MAX).await.unwrap();
    let tool = |tool: &str| Filter { tool: Some(tool.into()), ..Filter::default() };
    assert_eq!(count(&fixture, tool("old")).await, 0);
    // Two writers do not write in the order of time.
    let left = count(&fixture, tool("new")).await;
    assert!((301..=351).contains(&left), "{left}");
    let admin = Filter { kind: Some(Kind::Admin), ..Filter::default() };
    assert!(count(&fixture, admin).await >= 1);
}
