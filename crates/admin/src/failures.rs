//! Audit records of failed authentications, limited in number by
//! `sluice_listener`'s limiter.

use std::{net::IpAddr, sync::Mutex, time::Duration};

use sluice_listener::{FailedAttempts, Sum};
use sluice_policy::Timestamp;
use sluice_store::{Kind, Outcome, Record, Store, new_id};

use crate::clock;

/// Counts the failures of each address within a minute.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<FailedAttempts>);

impl Failures {
    /// Counts a failure, and records it if it is among the first.
    pub(crate) fn note(&self, store: &Store, source: IpAddr, reason: &str) {
        let now = clock::now();
        let since_epoch = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or_default());
        let Ok(mut attempts) = self.0.lock() else { return };
        let noted = attempts.note(source, since_epoch);
        record_sums(store, noted.sums);
        if noted.is_recorded {
            let reason = reason.lines().next().unwrap_or_default();
            append(store, now, format!("admin API: {reason} (from {source})"));
        }
    }

    /// Records the sums of the last minute, at shutdown.
    pub(crate) fn finish(&self, store: &Store) {
        let Ok(mut attempts) = self.0.lock() else { return };
        record_sums(store, attempts.finish());
    }
}

fn record_sums(store: &Store, sums: Vec<Sum>) {
    for Sum { source, attempts } in sums {
        let message = format!("admin API: {attempts} more failed in that minute (from {source})");
        append(store, clock::now(), message);
    }
}

fn append(store: &Store, now: Timestamp, message: String) {
    store.append_deferred(Record {
        outcome: Some(Outcome::Deny),
        message: Some(message),
        ..Record::new(new_id(now), now, Kind::Auth)
    });
}
