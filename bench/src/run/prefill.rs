//! Fills an audit log: records are appended through the store itself, so that they are chained and
//! stored like the gateway's own.

use std::{
    fs,
    io::{self, IsTerminal as _},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use sluice_policy::Timestamp;
use sluice_store::{
    Clock, Durability, Filter, GrantRef, Id, Key, Kind, Outcome, PolicyRef, Record, Store,
    StoreConfig, UpstreamRef, new_id,
};

use crate::{clock, listen, upstream::tool};

/// The number of records appended together; the store groups them into few transactions.
const BATCH: usize = 4096;

/// Appends `rows` records to the database of a data directory; returns the request of the one in
/// the middle.
pub(super) fn fill(data: &Path, rows: usize) -> anyhow::Result<Id> {
    let store = open(data)?;
    listen::runtime(1)?.block_on(async {
        let mut middle = None;
        for from in (0..rows).step_by(BATCH) {
            let batch = from..rows.min(from + BATCH);
            let is_middle = batch.contains(&(rows / 2));
            let records: Vec<_> = batch.map(record).collect();
            if is_middle {
                middle = records.first().and_then(|record| record.request);
            }
            try_join_all(records.into_iter().map(|record| store.append(record))).await?;
            if from.is_multiple_of(BATCH * 64) && io::stderr().is_terminal() {
                eprint!("filling the audit log: {from} of {rows}\r");
            }
        }
        middle.context("no records")
    })
}

/// How long the open store takes to find the records of a request: the median of several times.
pub(super) fn time_search(data: &Path, request: Id) -> anyhow::Result<Duration> {
    const TIMES: usize = 21;
    let store = open(data)?;
    let filter = Filter { requests: vec![request], ..Filter::default() };
    listen::runtime(1)?.block_on(async {
        let mut took = Vec::new();
        for _ in 0..TIMES {
            let start = clock::now();
            let found = store.page(&filter, 10).await?.entries.len();
            took.push(start.elapsed());
            ensure!(found == 1, "{found} records of one request");
        }
        took.sort();
        took.get(TIMES / 2).copied().context("nothing was timed")
    })
}

fn open(data: &Path) -> anyhow::Result<Store> {
    Ok(Store::open(StoreConfig {
        directory: data.to_owned(),
        durability: Durability::Process,
        key: key(data)?,
        clock: Clock::System,
        retention: None,
        accept_loss: false,
    })?)
}

/// The key that the gateway has created.
fn key(data: &Path) -> anyhow::Result<Key> {
    let text = fs::read_to_string(data.join("keys/master"))?;
    let digits = data_encoding::HEXLOWER.decode(text.trim().as_bytes())?;
    Ok(Key::from_bytes(digits.try_into().ok().context("the key has another length")?))
}

/// Decisions and their outcomes alternately, as calls write them.
fn record(n: usize) -> Record {
    let at = Timestamp::from_millis(clock::epoch_millis());
    let is_outcome = n % 2 == 1;
    let kind = if is_outcome { Kind::Outcome } else { Kind::Decision };
    let name = tool(n % 20);
    let upstream = UpstreamRef { status: Some(200), is_error: Some(false), micros: 180 };
    Record {
        request: Some(new_id(at)),
        server: Some("bench".into()),
        grant: Some(GrantRef { id: "file:grant-0".into(), label: "grant-0".into() }),
        method: Some("tools/call".into()),
        tool: Some(name.into()),
        outcome: Some(Outcome::Allow),
        policy: Some(PolicyRef { name: "policy-0".into(), version: "0".repeat(16).into() }),
        arg_keys: vec!["count".into(), "tags".into(), "text".into()],
        arg_digest: Some([0; 32]),
        upstream: is_outcome.then_some(upstream),
        micros: Some(20),
        ..Record::new(new_id(at), at, kind)
    }
}

#[cfg(test)]
mod tests {
    use sluice_store::{Clock, Durability, Filter, Key, Store, StoreConfig};

    use super::fill;
    use crate::listen;

    #[test]
    fn the_store_accepts_a_filled_log() {
        let folder = std::env::temp_dir().join(format!("sluice-bench-fill-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(folder.join("keys")).unwrap();
        std::fs::write(folder.join("keys/master"), "07".repeat(32)).unwrap();
        fill(&folder, 5_000).unwrap();
        let config = StoreConfig {
            directory: folder.clone(),
            durability: Durability::Process,
            key: Key::from_bytes([7; 32]),
            clock: Clock::System,
            retention: None,
            accept_loss: false,
        };
        let store = Store::open(config).unwrap();
        listen::runtime(1).unwrap().block_on(async {
            let verified = store.verify().await.unwrap();
            assert_eq!((verified.records, verified.faults.len()), (5_000, 0));
            assert_eq!(store.page(&Filter::default(), 1).await.unwrap().entries.len(), 1);
        });
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
