//! Pruning: what goes, and how the rest still proves itself.

use std::time::Duration;

use sluice_store::{Actor, Filter, GrantRef, Kind, Record, Retention, StoreError, new_id};

use crate::fixture::{Fixture, later, reservation, retention};

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
    let pruned = fixture.store.prune(retention(keep, u64::MAX)).await.unwrap();
    assert!((1_700..=1_800).contains(&pruned), "{pruned}");
    let verified = fixture.store.verify().await.unwrap();
    assert_eq!(verified.faults, []);
    assert_eq!(verified.pruned_through, i64::try_from(pruned).ok());
    // A second time there is nothing to do, and nothing is recorded.
    let before = fixture.entries().await;
    assert_eq!(fixture.store.prune(retention(keep, u64::MAX)).await.unwrap(), 0);
    assert_eq!(fixture.entries().await, before);
}

pub(crate) async fn anchors_grow_old_and_are_pruned_too(fixture: Fixture) {
    fill(&fixture).await;
    let keep = Duration::from_secs(700);
    fixture.store.prune(retention(keep, u64::MAX)).await.unwrap();
    fixture.advance(10_000);
    fixture.store.prune(retention(keep, u64::MAX)).await.unwrap();
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
    assert_eq!(fixture.store.prune(retention(forever, 1 << 40)).await.unwrap(), 0);
    let pruned = fixture.store.prune(retention(forever, 600_000)).await.unwrap();
    let left = fixture.verify().await;
    assert!(pruned > 0 && left > 100, "{pruned} {left}");
    // What can never fit leaves the newest, and comes to an end.
    fixture.store.prune(retention(forever, 0)).await.unwrap();
    assert!(fixture.verify().await < 10);
}

pub(crate) async fn filters_find_what_is_left(fixture: Fixture) {
    fill(&fixture).await;
    fixture.store.prune(retention(Duration::from_mins(5), u64::MAX)).await.unwrap();
    let tool = |tool: &str| Filter { tool: Some(tool.into()), ..Filter::default() };
    assert_eq!(count(&fixture, tool("old")).await, 0);
    // Two writers do not write in the order of time.
    let left = count(&fixture, tool("new")).await;
    assert!((301..=351).contains(&left), "{left}");
    let admin = Filter { kind: Some(Kind::Admin), ..Filter::default() };
    assert!(count(&fixture, admin).await >= 1);
}

pub(crate) async fn records_that_must_be_kept_stay_whatever_the_size(fixture: Fixture) {
    fill(&fixture).await;
    let keep_at_least = Duration::from_secs(1_000);
    let retention = Retention { keep: Duration::from_hours(24), keep_at_least, max_size: 0 };
    fixture.store.prune(retention).await.unwrap();
    let left = count(&fixture, Filter { kind: Some(Kind::Decision), ..Filter::default() }).await;
    // Two writers do not write in the order of time.
    assert!((1_000..=1_051).contains(&left), "{left}");
    fixture.verify().await;
}

/// A decision of 2 KB on a call of a grant.
fn decision(grant: &str) -> Record {
    let grant = GrantRef { id: grant.into(), label: grant.into() };
    let message = Some("x".repeat(2_000));
    Record {
        grant: Some(grant),
        message,
        ..Record::new(new_id(later(0)), later(0), Kind::Decision)
    }
}

pub(crate) async fn a_grant_that_fills_the_log_leaves_space_to_others(mut fixture: Fixture) {
    let hour = Duration::from_hours(1);
    let retention = Retention { keep: 24 * hour, keep_at_least: hour, max_size: 10_000_000 };
    fixture.retain(retention).await;
    let mut made = 0;
    let refused = loop {
        match fixture.store.append(decision("greedy")).await {
            Ok(()) => made += 1,
            Err(refused) => break refused,
        }
        assert!(made < 5_000, "{made}");
    };
    assert_eq!(refused, StoreError::ShareUsed);
    assert!((2_000..2_500).contains(&made), "{made}");
    // That is so after a restart, for what has charges too, and in another process.
    fixture.restart().await;
    if let Some(other) = fixture.other_process() {
        assert_eq!(other.append(decision("greedy")).await, Err(StoreError::ShareUsed));
        assert_eq!(other.append(decision("modest")).await, Ok(()));
    }
    let mut reserved = reservation(Vec::new());
    reserved.record.grant = decision("greedy").grant;
    assert_eq!(fixture.store.reserve(reserved.clone()).await, Err(StoreError::ShareUsed));
    reserved.record.grant = decision("modest").grant;
    assert!(fixture.store.reserve(reserved).await.is_ok());
    assert!(fixture.store.health().ok);
    let space = fixture.store.health().log;
    assert!(space.refused > 0 && !space.is_full() && space.used > 4_900_000, "{space:?}");
    // The outcomes of calls that were let through are recorded nevertheless.
    let before = fixture.entries().await.len();
    fixture.store.append_deferred(Record { kind: Kind::Outcome, ..decision("greedy") });
    assert_eq!(fixture.entries().await.len(), before + 1);
    // Records that may be removed are, and then there is space again.
    fixture.advance(3 * 3_600);
    let small = Retention { max_size: 0, ..retention };
    fixture.store.prune(small).await.unwrap();
    assert_eq!(fixture.store.append(decision("greedy")).await, Ok(()));
}

pub(crate) async fn a_clock_that_jumps_prunes_nothing_until_it_is_confirmed(mut fixture: Fixture) {
    let move_clock = fixture.jumping().await;
    let day = Duration::from_hours(24);
    let retention = Retention { keep: 30 * day, keep_at_least: day, max_size: u64::MAX };
    fixture.store.append(decision("g")).await.unwrap();
    let left =
        async || count(&fixture, Filter { kind: Some(Kind::Decision), ..Filter::default() }).await;
    move_clock(100 * 86_400, 0);
    assert_eq!(fixture.store.prune(retention).await.unwrap(), 0);
    assert_eq!(left().await, 1);
    // A day on it has agreed with itself; or a person confirms it.
    move_clock(0, 86_399);
    assert_eq!(fixture.store.prune(retention).await.unwrap(), 0);
    let ahead = fixture.store.trust_clock(Actor::local("t1", "ada")).await.unwrap();
    assert_eq!(ahead, Some(100 * 86_400_000));
    assert_eq!(fixture.store.trust_clock(Actor::local("t1", "ada")).await.unwrap(), None);
    assert!(fixture.store.prune(retention).await.unwrap() > 0);
    assert_eq!(left().await, 0);
    fixture.store.append(decision("g")).await.unwrap();
    move_clock(100 * 86_400, 0);
    assert_eq!(fixture.store.prune(retention).await.unwrap(), 0);
    move_clock(0, 86_400);
    assert!(fixture.store.prune(retention).await.unwrap() > 0);
}
