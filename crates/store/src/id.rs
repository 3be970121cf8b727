//! Ids that sort by creation time: 48 bits of milliseconds and 80 more bits, written as
//! the 26 characters of a ULID.
//!
//! The 80 bits count up from a random start that each process chooses, so an id needs no
//! system call and no two processes make the same one.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use sluice_policy::Timestamp;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH: usize = 26;
/// The number of bits that are not time.
const REST: u32 = 80;
const MASK: u128 = (1 << REST) - 1;

/// One id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u128);

/// The random start of this process.
static START: LazyLock<u128> = LazyLock::new(random);
/// How many ids it has made.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A new id for an event at `at`.
pub fn new_id(at: Timestamp) -> Id {
    let count = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    let millis = u64::try_from(at.as_millis()).unwrap_or(0);
    Id(u128::from(millis) << REST | (START.wrapping_add(count) & MASK))
}

/// Random bits from the standard library, which gets them from the system for its hash
/// maps. It cannot fail.
fn random() -> u128 {
    let state = RandomState::new();
    u128::from(state.hash_one(0)) << 64 | u128::from(state.hash_one(1))
}

/// A point in the sequence of the ids that this process makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) fn now() -> Mark {
        Mark(NEXT.load(Ordering::Relaxed))
    }

    /// Whether this process made the id after the mark.
    pub(crate) fn is_before(self, id: Id) -> bool {
        let count = id.0.wrapping_sub(*START) & MASK;
        let next = NEXT.load(Ordering::Relaxed);
        (u128::from(self.0)..u128::from(next)).contains(&count)
    }
}

impl Id {
    /// Parses the text of an id.
    pub fn read(text: &str) -> Option<Id> {
        if text.len() != LENGTH {
            return None;
        }
        let add = |number: u128, byte: u8| {
            let digit = ALPHABET.iter().position(|letter| *letter == byte)?;
            number.checked_mul(32)?.checked_add(u128::try_from(digit).ok()?)
        };
        text.bytes().try_fold(0, add).map(Id)
    }

    /// The time in the id.
    pub fn at(self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.0 >> REST).unwrap_or(i64::MAX))
    }

    /// Its text, without an allocation.
    pub(crate) fn text(self) -> IdText {
        let mut rest = self.0;
        let mut letters = [b'0'; LENGTH];
        for letter in letters.iter_mut().rev() {
            let digit = usize::try_from(rest & 31).unwrap_or_default();
            *letter = ALPHABET.get(digit).copied().unwrap_or(b'0');
            rest >>= 5;
        }
        IdText(letters)
    }
}

/// An id as it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdText([u8; LENGTH]);

impl IdText {
    pub(crate) fn as_str(&self) -> &str {
        // The alphabet is ASCII.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text().as_str())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use sluice_policy::Timestamp;

    use super::{Id, Mark, new_id};

    #[test]
    fn ids_sort_by_time_and_differ() {
        let id = |millis| new_id(Timestamp::from_millis(millis));
        assert_eq!(id(1_700_000_000_000).to_string().len(), 26);
        assert!(id(1_700_000_000_000).to_string() < id(1_700_000_000_001).to_string());
        let many: HashSet<_> = (0..10_000).map(|_| id(1)).collect();
        assert_eq!(many.len(), 10_000);
        // The first ten characters are the time.
        assert!(id(1_469_918_176_385).to_string().starts_with("01ARYZ6S41"));
    }

    #[test]
    fn a_mark_distinguishes_later_ids_from_earlier_and_foreign_ones() {
        let id = || new_id(Timestamp::from_millis(1));
        let (earlier, mark, later) = (id(), Mark::now(), id());
        let foreign = Id::read("01ARYZ6S41TSV4RRFFQ69G5FAV").unwrap();
        assert_eq!([earlier, later, foreign].map(|id| mark.is_before(id)), [false, true, false]);
    }

    #[test]
    fn an_id_is_read_back_from_its_text() {
        let id = new_id(Timestamp::from_millis(1_700_000_000_000));
        assert_eq!(Id::read(&id.to_string()), Some(id));
        assert_eq!(id.at(), Timestamp::from_millis(1_700_000_000_000));
        for bad in ["", "01ARYZ6S41", "01ARYZ6S41TSV4RRFFQ69G5FAU", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ"] {
            assert_eq!(Id::read(bad), None, "{bad}");
        }
    }
}
