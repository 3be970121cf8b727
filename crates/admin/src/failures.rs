//! Failed authentications: recorded, but not so often that they fill the log.

use std::{collections::BTreeMap, net::IpAddr, sync::Mutex};

use sluice_policy::{Timestamp, Window};
use sluice_store::{Kind, Outcome, Record, Store, new_id};

use crate::clock;

/// Records of one address in one minute; the last of them counts the rest.
const MOST_RECORDS: u64 = 10;
/// Addresses remembered; further ones wait for the next minute.
const MOST_ADDRESSES: usize = 10_000;

/// How often each address has failed in one minute.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    start: Option<Timestamp>,
    failed: BTreeMap<IpAddr, u64>,
}

impl Failures {
    /// Takes note of a failure, and records it if it is among the first.
    pub(crate) fn note(&self, store: &Store, source: IpAddr, reason: &str) {
        let now = clock::now();
        let minute = Some(Window::Minute.start(now));
        let Ok(mut current) = self.0.lock() else { return };
        if current.start != minute {
            sum_up(store, std::mem::take(&mut current));
            current.start = minute;
        }
        if current.failed.len() >= MOST_ADDRESSES && !current.failed.contains_key(&source) {
            return;
        }
        let failed = current.failed.entry(source).or_default();
        *failed += 1;
        // One record is left for the count.
        if *failed < MOST_RECORDS {
            let reason = reason.lines().next().unwrap_or_default();
            append(store, now, format!("admin API: {reason} (from {source})"));
        }
    }

    /// Records what is left uncounted.
    pub(crate) fn finish(&self, store: &Store) {
        let Ok(mut current) = self.0.lock() else { return };
        sum_up(store, std::mem::take(&mut current));
    }
}

fn sum_up(store: &Store, minute: Minute) {
    let now = clock::now();
    for (source, failed) in minute.failed {
        let more = failed.saturating_sub(MOST_RECORDS - 1);
        if more > 0 {
            append(
                store,
                now,
                format!("admin API: {more} more failed in that minute (from {source})"),
            );
        }
    }
}

fn append(store: &Store, now: Timestamp, message: String) {
    store.append_deferred(Record {
        outcome: Some(Outcome::Deny),
        message: Some(message),
        ..Record::new(new_id(now), now, Kind::Auth)
    });
}
