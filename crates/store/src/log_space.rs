//! The space of the audit log, and how grants share it.
//!
//! Records that are younger than [`Retention::keep_at_least`] are never removed for the size of
//! the log, so an agent that makes many records must be refused before it fills the log for
//! all. The rule is that of dynamic thresholds, by which switches share a buffer: a grant may use
//! at most as much space as nobody uses. One grant alone gets a half, the next a quarter, so a
//! grant that has used little still finds space when others have used up their shares.

use std::{collections::HashMap, time::Duration};

use sluice_policy::Timestamp;

use crate::{
    StoreError,
    record::{Kind, Record},
};

/// The log counts as full if less than this part of its space is unused.
const RESERVE: u64 = 256;
/// What a record takes besides its text: numbers, hashes and page overhead.
pub(crate) const RECORD_OVERHEAD: u64 = 128;

/// How long records are kept, and how much space they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub keep: Duration,
    /// Records that are younger are not removed for the size of the log. If they fill it, calls
    /// are refused.
    pub keep_at_least: Duration,
    /// In bytes.
    pub max_size: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        let day = Duration::from_hours(24);
        Retention { keep: 90 * day, keep_at_least: 7 * day, max_size: 10 << 30 }
    }
}

impl Retention {
    /// The times before which records are removed at `now`: in any case, and if the log is too
    /// large.
    pub(crate) fn cutoffs(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        let before = |span: Duration| {
            let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.as_millis().saturating_sub(millis))
        };
        let for_size = match self.keep_at_least.min(self.keep) {
            Duration::ZERO => Timestamp::from_millis(i64::MAX),
            span => before(span),
        };
        (before(self.keep), for_size)
    }
}

/// The state of the log's space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogSpace {
    /// Bytes of the records that must be kept.
    pub used: u64,
    /// The bytes that they may take.
    pub max: u64,
    /// Records that were refused since the start, because there was no space for them.
    pub refused: u64,
}

impl LogSpace {
    /// Whether every call is refused because records that must be kept fill the log.
    pub fn is_full(&self) -> bool {
        self.max > 0 && self.max.saturating_sub(self.used) < self.max / RESERVE
    }
}

/// The bytes that the records of each grant take, as far as they must be kept.
#[derive(Debug, Default)]
pub(crate) struct LogUse {
    max: u64,
    /// Counted from the log itself.
    settled: Shares,
    /// What this process has added since.
    added: Shares,
    refused: u64,
}

#[derive(Debug, Default)]
struct Shares {
    all: u64,
    /// By the grant's id; records without a grant are under the empty text.
    grants: HashMap<Box<str>, u64>,
}

impl Shares {
    fn add(&mut self, grant: &str, bytes: u64) {
        self.all = self.all.saturating_add(bytes);
        match self.grants.get_mut(grant) {
            Some(used) => *used = used.saturating_add(bytes),
            None => drop(self.grants.insert(grant.into(), bytes)),
        }
    }

    fn of(&self, grant: &str) -> u64 {
        self.grants.get(grant).copied().unwrap_or_default()
    }
}

impl LogUse {
    pub(crate) fn new(max: u64) -> LogUse {
        LogUse { max, ..LogUse::default() }
    }

    /// Begins to count the log anew.
    pub(crate) fn clear(&mut self) {
        (self.settled, self.added) = (Shares::default(), Shares::default());
    }

    /// Counts records in the log, which include all that this process has added.
    pub(crate) fn settle(&mut self, counted: impl IntoIterator<Item = (String, u64)>) {
        for (grant, bytes) in counted {
            self.settled.add(&grant, bytes);
        }
        self.added = Shares::default();
    }

    /// Counts a record that this process adds.
    pub(crate) fn add(&mut self, record: &Record, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.added.add(owner(record), bytes.saturating_add(RECORD_OVERHEAD));
    }

    /// Whether a record may be added. Records of what people and the gateway itself do always
    /// may, and so may the outcome of a call whose decision was recorded.
    pub(crate) fn check(&mut self, record: &Record) -> Result<(), StoreError> {
        if !matches!(record.kind, Kind::Decision | Kind::Auth) {
            return Ok(());
        }
        let space = self.space();
        let used = self.settled.of(owner(record)).saturating_add(self.added.of(owner(record)));
        let error = if space.is_full() {
            StoreError::LogFull
        } else if used > space.max.saturating_sub(space.used) {
            StoreError::ShareUsed
        } else {
            return Ok(());
        };
        self.refused += 1;
        Err(error)
    }

    pub(crate) fn space(&self) -> LogSpace {
        let used = self.settled.all.saturating_add(self.added.all);
        LogSpace { used, max: self.max, refused: self.refused }
    }
}

/// The grant whose share a record takes.
fn owner(record: &Record) -> &str {
    record.grant.as_ref().map_or("", |grant| &grant.id)
}

#[cfg(test)]
mod tests {
    use sluice_policy::Timestamp;

    use super::LogUse;
    use crate::{GrantRef, Kind, Record, StoreError, id::new_id};

    const AT: Timestamp = Timestamp::from_millis(1);
    const MAX: u64 = 1_000_000;

    fn record(grant: &str) -> Record {
        let grant = GrantRef { id: grant.into(), label: grant.into() };
        Record { grant: Some(grant), ..Record::new(new_id(AT), AT, Kind::Decision) }
    }

    /// Adds records of a grant until one is refused; the error.
    fn fill(log: &mut LogUse, grant: &str) -> StoreError {
        loop {
            match log.check(&record(grant)) {
                Ok(()) => log.add(&record(grant), 1_000),
                Err(error) => return error,
            }
        }
    }

    #[test]
    fn no_number_of_greedy_grants_uses_up_the_space_of_others() {
        let mut log = LogUse::new(MAX);
        for number in 0..7 {
            assert_eq!(fill(&mut log, &format!("greedy-{number}")), StoreError::ShareUsed);
            assert_eq!(log.check(&record("modest")), Ok(()));
            let used = log.space().used;
            assert!((500_000..996_000).contains(&used), "{number}: {used}");
        }
    }

    #[test]
    fn a_full_log_takes_only_what_people_and_the_gateway_do() {
        let mut log = LogUse::new(MAX);
        log.settle([("x".into(), MAX - 1_000)]);
        assert_eq!(log.check(&record("modest")), Err(StoreError::LogFull));
        assert_eq!(log.check(&Record::new(new_id(AT), AT, Kind::Auth)), Err(StoreError::LogFull));
        assert_eq!(log.check(&Record::new(new_id(AT), AT, Kind::Admin)), Ok(()));
        assert_eq!(log.check(&Record { kind: Kind::Outcome, ..record("x") }), Ok(()));
        assert!(log.space().is_full());
        assert_eq!(log.space().refused, 2);
    }
}
