//! What all requests together may take of something, and those of one grant: bytes of long
//! messages, and requests that run on without their client.
//!
//! A budget is a lock, which short messages do not touch.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;
use sluice_http::{Collector, Pace, TooLong};

use crate::refusal::Refusal;

/// Requests of one grant that run on after their client is gone.
const MOST_UNATTENDED_OF_GRANT: usize = 64;
/// The same of all grants.
const MOST_UNATTENDED: usize = 512;
/// Messages up to this size do not count: what they take is bounded by their number.
const UNCOUNTED: usize = 64 << 10;
/// The unit in which bytes are taken, so that long messages do it seldom.
const STEP: usize = 256 << 10;
/// Of all bytes, one grant may have one part in this many.
const PARTS_OF_GRANT: usize = 2;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    /// The error of a request beyond the budget.
    bound: &'static str,
    most: usize,
    most_of_grant: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    total: usize,
    by_grant: HashMap<Arc<str>, usize>,
}

/// What one request has taken; it is given back on drop.
#[derive(Debug)]
pub(crate) struct Portion {
    pool: Arc<Pool>,
    grant: Arc<str>,
    amount: usize,
}

impl Budget {
    /// The bytes of long messages that are held at a time. A grant can always have the
    /// longest of them.
    pub(crate) fn of_bytes(most: usize, longest: usize) -> Budget {
        let bound = "too many bytes of long messages in progress (`limits.in_flight`)";
        let most = most.max(longest.next_multiple_of(STEP).saturating_mul(PARTS_OF_GRANT));
        Budget::new(bound, most, most / PARTS_OF_GRANT)
    }

    /// Requests that run on after their client is gone.
    pub(crate) fn of_unattended() -> Budget {
        let bound = "too many requests whose client is gone";
        Budget::new(bound, MOST_UNATTENDED, MOST_UNATTENDED_OF_GRANT)
    }

    fn new(bound: &'static str, most: usize, most_of_grant: usize) -> Budget {
        Budget(Arc::new(Pool { bound, most, most_of_grant, used: Mutex::default() }))
    }

    /// A portion for a grant, which has nothing yet.
    pub(crate) fn open(&self, grant: &Arc<str>) -> Portion {
        Portion { pool: Arc::clone(&self.0), grant: Arc::clone(grant), amount: 0 }
    }

    /// Takes one for a grant.
    pub(crate) fn take_one(&self, grant: &Arc<str>) -> Result<Portion, Refusal> {
        let mut portion = self.open(grant);
        portion.take(1)?;
        Ok(portion)
    }

    /// Counts bytes until they are dropped.
    pub(crate) fn hold(&self, grant: &Arc<str>, bytes: Bytes) -> Result<Bytes, Refusal> {
        let mut portion = self.open(grant);
        portion.cover(bytes.len())?;
        Ok(portion.attach(bytes))
    }
}

impl Portion {
    /// Takes what a message of this many bytes needs, beyond what it has already.
    pub(crate) fn cover(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes <= UNCOUNTED || bytes <= self.amount {
            return Ok(());
        }
        self.take(bytes.next_multiple_of(STEP) - self.amount)
    }

    /// Binds this to bytes: it is given back when they are dropped.
    pub(crate) fn attach(self, bytes: Bytes) -> Bytes {
        if self.amount == 0 {
            return bytes;
        }
        Bytes::from_owner(Held { bytes, _portion: self })
    }

    fn take(&mut self, more: usize) -> Result<(), Refusal> {
        let pool = &*self.pool;
        let mut used = pool.used.lock().unwrap_or_else(PoisonError::into_inner);
        let of_grant = used.by_grant.get(&self.grant).copied().unwrap_or(0) + more;
        if used.total + more > pool.most || of_grant > pool.most_of_grant {
            return Err(Refusal::Busy(pool.bound));
        }
        used.total += more;
        used.by_grant.insert(Arc::clone(&self.grant), of_grant);
        self.amount += more;
        Ok(())
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let mut used = self.pool.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.total -= self.amount;
        if let Some(of_grant) = used.by_grant.get_mut(&self.grant) {
            *of_grant -= self.amount;
            if *of_grant == 0 {
                used.by_grant.remove(&self.grant);
            }
        }
    }
}

/// Why a body could not be read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    TooLong,
    Lost,
    /// Other long messages leave it no room.
    NoRoom(Refusal),
}

/// Reads a whole body of at most `most` bytes, which the portion then covers.
pub(crate) async fn collect<B>(
    mut body: B,
    most: usize,
    portion: &mut Portion,
) -> Result<Vec<u8>, ReadFailure>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut collected = Collector::new(most);
    let mut pace = Pace::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| ReadFailure::Lost)?.into_data() else { continue };
        pace.note(data.len());
        collected.push(data).map_err(|TooLong(_)| ReadFailure::TooLong)?;
        portion.cover(collected.len()).map_err(ReadFailure::NoRoom)?;
        // Most bodies know their length, so this saves a poll for the end.
        if body.is_end_stream() {
            break;
        }
        pace.turn().await;
    }
    Ok(collected.finish())
}

/// Bytes with what they take of a budget.
struct Held {
    bytes: Bytes,
    _portion: Portion,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::{Budget, STEP, UNCOUNTED};

    #[test]
    fn a_grant_has_its_part_and_others_the_rest() {
        let budget = Budget::new("", 8 * STEP, 6 * STEP);
        let (alice, bob): (Arc<str>, Arc<str>) = ("alice".into(), "bob".into());
        let (mut first, mut second) = (budget.open(&alice), budget.open(&bob));
        assert!(first.cover(5 * STEP + 1).is_ok());
        assert!(first.cover(3 * STEP).is_ok(), "it has them already");
        assert!(first.cover(6 * STEP + 1).is_err());
        assert!(second.cover(3 * STEP).is_err(), "there are two left");
        assert!(second.cover(2 * STEP).is_ok());
        assert!(budget.open(&bob).cover(UNCOUNTED).is_ok());
        drop(first);
        assert!(second.cover(6 * STEP).is_ok());
        drop(second);
        assert!(budget.0.used.lock().unwrap().by_grant.is_empty());
    }

    #[test]
    fn bytes_count_until_the_last_copy_is_dropped() {
        let budget = Budget::new("", STEP, STEP);
        let grant: Arc<str> = "alice".into();
        let long = Bytes::from(vec![0; STEP]);
        let held = budget.hold(&grant, long.clone()).unwrap();
        let copy = held.slice(..1);
        drop(held);
        assert!(budget.hold(&grant, long.clone()).is_err());
        drop(copy);
        assert!(budget.hold(&grant, long).is_ok());
    }
}
