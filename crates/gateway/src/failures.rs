//! Failed authentications: recorded, but not so often that they fill the log.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use sluice_policy::{Timestamp, Window};
use sluice_store::{Kind, Outcome, Record, new_id};

use crate::gateway::Inner;

/// Records of one address in one minute; the last of them counts the rest.
const MOST_RECORDS: u64 = 10;
/// Addresses remembered; when there are more, all are forgotten.
const MOST_ADDRESSES: usize = 10_000;

/// How often each address has failed in this minute.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    counts: Mutex<HashMap<IpAddr, Count>>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    minute: Timestamp,
    failed: u64,
}

impl Failures {
    /// Takes note of a failure, and records it if it is among the first.
    pub(crate) fn note(&self, gateway: &Arc<Inner>, source: IpAddr, server: &str, reason: &str) {
        gateway.metrics.unauthenticated();
        let now = gateway.settings.clock.now();
        let minute = Window::Minute.start(now);
        let Ok(mut counts) = self.counts.lock() else { return };
        if counts.len() >= MOST_ADDRESSES {
            counts.clear();
        }
        let count = counts.entry(source).or_insert(Count { minute, failed: 0 });
        if count.minute != minute {
            summed(gateway, source, *count);
            *count = Count { minute, failed: 0 };
        }
        count.failed += 1;
        // One record is left for the count.
        if count.failed < MOST_RECORDS {
            let message = format!("{reason} (from {source})");
            gateway.store.append_deferred(Record {
                server: Some(server.chars().take(64).collect::<String>().into()),
                outcome: Some(Outcome::Deny),
                message: Some(message),
                ..Record::new(new_id(now), now, Kind::Auth)
            });
        }
    }

    /// Records what minutes that are over have left uncounted.
    pub(crate) fn sweep(&self, gateway: &Inner) {
        let minute = Window::Minute.start(gateway.settings.clock.now());
        let Ok(mut counts) = self.counts.lock() else { return };
        counts.retain(|source, count| {
            let is_current = count.minute == minute;
            if !is_current {
                summed(gateway, *source, *count);
            }
            is_current
        });
    }
}

fn summed(gateway: &Inner, source: IpAddr, count: Count) {
    let Some(more) = count.failed.checked_sub(MOST_RECORDS - 1).filter(|more| *more > 0) else {
        return;
    };
    let now = gateway.settings.clock.now();
    gateway.store.append_deferred(Record {
        outcome: Some(Outcome::Deny),
        message: Some(format!("{more} more failed in that minute (from {source})")),
        ..Record::new(new_id(now), now, Kind::Auth)
    });
}
