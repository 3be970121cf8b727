//! Readers of events, over a store in memory.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use sluice_policy::Timestamp;
use sluice_store::{Clock, Grant, Kind, Name, Record, Secret, Store, TokenHash, new_id};

use super::{Event, EventFilter, EventHub, EventKind, EventReader};
use crate::live::{Eventual, FileProblem, HeadExport, InForce, Live, Running, TakeError, Tool};

/// A gateway of which only the problems are asked.
struct Idle;

impl Live for Idle {
    fn in_force(&self) -> Arc<InForce> {
        Arc::default()
    }

    fn take_stored(&self) -> Eventual<'_, Result<(), TakeError>> {
        Box::pin(async { Ok(()) })
    }

    fn set_grant(&self, _: &TokenHash, _: Option<&Grant>) {}

    fn store_uses(&self) -> Eventual<'_, ()> {
        Box::pin(async {})
    }

    fn problems(&self) -> Vec<FileProblem> {
        Vec::new()
    }

    fn running(&self) -> Option<Running> {
        None
    }

    fn tools<'a>(&'a self, _: &'a Name, _: bool) -> Eventual<'a, Result<Vec<Tool>, String>> {
        Box::pin(async { Err("there are none".into()) })
    }

    fn head_exports(&self) -> Vec<HeadExport> {
        Vec::new()
    }

    fn check_address<'a>(&'a self, _: &'a Secret) -> Eventual<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn metrics(&self) -> String {
        String::new()
    }
}

fn hub(backlog: usize) -> (EventHub, Store) {
    let store = Store::memory(Clock::System);
    (EventHub::with_backlog(Arc::new(Idle), store.clone(), backlog), store)
}

async fn append(store: &Store, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let at = Timestamp::from_millis(1_794_724_708_123);
        let mut record = Record::new(new_id(at), at, Kind::Admin);
        record.message = Some(number.to_string());
        store.append(record).await.unwrap();
    }
}

/// The numbers of the records that a reader gets, until there are so many, or its last event.
async fn read(reader: &mut EventReader, count: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let Some(events) = reader.next().await.unwrap() else { break };
        numbers.extend(events.iter().filter_map(|event| read_number(event)));
    }
    numbers
}

fn read_number(event: &Event) -> Option<usize> {
    let record: serde_json::Value = serde_json::from_str(&event.data).unwrap();
    record["message"].as_str()?.parse().ok()
}

fn address(number: usize) -> std::net::IpAddr {
    std::net::Ipv4Addr::from(u32::try_from(number).unwrap()).into()
}

#[tokio::test]
async fn a_thousand_readers_get_every_record_and_slow_ones_are_dropped() {
    let (hub, store) = hub(64);
    let mut readers = Vec::new();
    for number in 0..1_000 {
        let reader = hub.open(EventFilter::default(), None, address(number / 64)).await.unwrap();
        readers.push(reader);
    }
    let refused = hub.open(EventFilter::default(), None, address(999)).await;
    assert!(refused.is_err(), "there are as many as there may be");
    let mut slow = readers.split_off(950);
    for start in (0..200).step_by(20) {
        append(&store, start..start + 20).await;
        let got = join_all(readers.iter_mut().map(|reader| read(reader, 20))).await;
        let expected: Vec<_> = (start..start + 20).collect();
        assert!(got.iter().all(|numbers| *numbers == expected));
    }
    for reader in &mut slow {
        let first = reader.next().await.unwrap().unwrap();
        assert_eq!(first[0].kind, EventKind::Health);
        let last = reader.next().await.unwrap().unwrap();
        assert_eq!(last[0].kind, EventKind::End);
        assert!(last[0].data.contains("too slow"));
        assert!(reader.next().await.unwrap().is_none());
    }
    drop(slow);
    hub.open(EventFilter::default(), None, address(999)).await.unwrap();
}

#[tokio::test]
async fn a_reader_resumes_without_gaps_or_repetitions_while_records_are_written() {
    let (hub, store) = hub(4_096);
    append(&store, 0..1_000).await;
    let page = store.page(&sluice_store::Filter::default(), 700).await.unwrap();
    let place = page.entries.last().unwrap().cursor;
    let mut reader = hub.open(EventFilter::default(), Some(place), address(1)).await.unwrap();
    let writing = append(&store, 1_000..1_500);
    let (numbers, ()) = tokio::join!(read(&mut reader, 800), writing);
    assert_eq!(numbers, (700..1_500).collect::<Vec<_>>());
    // And again, from the place of the last one.
    let page = store.page(&sluice_store::Filter::default(), 1_500).await.unwrap();
    let place = page.entries.last().unwrap().cursor;
    drop(reader);
    let mut reader = hub.open(EventFilter::default(), Some(place), address(1)).await.unwrap();
    let (numbers, ()) = tokio::join!(read(&mut reader, 3), append(&store, 1_500..1_503));
    assert_eq!(numbers, [1_500, 1_501, 1_502]);
}

#[tokio::test(start_paused = true)]
async fn the_log_is_read_only_while_somebody_reads() {
    let (hub, store) = hub(16);
    let reader = hub.open(EventFilter::default(), None, address(1)).await.unwrap();
    assert!(hub.0.lock_position().is_some());
    drop(reader);
    while hub.0.lock_position().is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut reader = hub.open(EventFilter::default(), None, address(1)).await.unwrap();
    let (numbers, ()) = tokio::join!(read(&mut reader, 1), append(&store, 0..1));
    assert_eq!(numbers, [0]);
    hub.end();
    let mut last = None;
    while let Some(events) = reader.next().await.unwrap() {
        last = events.last().cloned();
    }
    assert_eq!(last.unwrap().kind, EventKind::End);
}
