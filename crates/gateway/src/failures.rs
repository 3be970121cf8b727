//! Audit records of failed authentications, limited in number by
//! `sluice_listener`'s limiter.

use std::{net::IpAddr, sync::Mutex, time::Duration};

use sluice_listener::{FailedAttempts, Sum};
use sluice_policy::Timestamp;
use sluice_store::{Kind, Outcome, Record, new_id};

use crate::gateway::Inner;

/// The number of failures of each address in the current minute.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<FailedAttempts>);

impl Failures {
    /// Counts a failure, and records it if it is one of the first.
    pub(crate) fn note(&self, gateway: &Inner, source: IpAddr, server: &str, reason: &str) {
        gateway.metrics.note_unauthenticated();
        let now = gateway.settings.clock.now();
        let Ok(mut attempts) = self.0.lock() else { return };
        let noted = attempts.note(source, since_epoch(now));
        record_sums(gateway, noted.sums);
        if noted.is_recorded {
            gateway.store.append_deferred(Record {
                server: Some(server.chars().take(64).collect::<String>().into()),
                outcome: Some(Outcome::Deny),
                message: Some(format!("{reason} (from {source})")),
                ..Record::new(new_id(now), now, Kind::Auth)
            });
        }
    }

    /// Records the totals of the previous minute.
    pub(crate) fn sweep(&self, gateway: &Inner) {
        let now = since_epoch(gateway.settings.clock.now());
        let Ok(mut attempts) = self.0.lock() else { return };
        record_sums(gateway, attempts.sweep(now));
    }

    /// Records the totals of the last minute, at shutdown.
    pub(crate) fn finish(&self, gateway: &Inner) {
        let Ok(mut attempts) = self.0.lock() else { return };
        record_sums(gateway, attempts.finish());
    }
}

fn record_sums(gateway: &Inner, sums: Vec<Sum>) {
    for Sum { source, attempts } in sums {
        let now = gateway.settings.clock.now();
        gateway.store.append_deferred(Record {
            outcome: Some(Outcome::Deny),
            message: Some(format!("{attempts} more failed in that minute (from {source})")),
            ..Record::new(new_id(now), now, Kind::Auth)
        });
    }
}

fn since_epoch(now: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or_default())
}
