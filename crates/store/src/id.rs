//! Ids that sort by creation time: 48 bits of milliseconds and 80 more bits, written as
//! the 26 characters of a ULID.
//!
//! The 80 bits are a counter that is encrypted with a random key of the process, by a Feistel
//! network over a keyed hash. So no id tells another one, a process never makes one twice, and
//! two processes are as unlikely to make the same one as with 80 random bits. It needs no system
//! call, and the process can tell which of its ids came first.

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
/// The bits of each half that the Feistel network works on.
const HALF: u32 = 40;
const HALF_MASK: u64 = (1 << HALF) - 1;
const MASK: u128 = (1 << REST) - 1;
/// Four rounds make a Feistel network of good round functions a strong permutation.
const ROUNDS: u8 = 4;

/// One id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u128);

/// The key of this process. The standard library gets it from the system for its hash maps, and
/// cannot fail.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
/// How many ids it has made.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A new id for an event at `at`.
pub fn new_id(at: Timestamp) -> Id {
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let millis = u64::try_from(at.as_millis()).unwrap_or(0);
    Id(u128::from(millis) << REST | encrypt(count.into()))
}

fn encrypt(count: u128) -> u128 {
    let (left, right) = (0..ROUNDS)
        .fold(split(count), |(left, right), round| (right, left ^ scramble(round, right)));
    join(left, right)
}

fn decrypt(rest: u128) -> u128 {
    let (left, right) = (0..ROUNDS)
        .rev()
        .fold(split(rest), |(left, right), round| (right ^ scramble(round, left), left));
    join(left, right)
}

/// The round function: `SipHash` with the key of the process.
fn scramble(round: u8, half: u64) -> u64 {
    KEY.hash_one(u64::from(round) << HALF | half) & HALF_MASK
}

fn split(rest: u128) -> (u64, u64) {
    let half = |bits: u128| u64::try_from(bits & u128::from(HALF_MASK)).unwrap_or_default();
    (half(rest >> HALF), half(rest))
}

fn join(left: u64, right: u64) -> u128 {
    u128::from(left) << HALF | u128::from(right)
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
        let count = decrypt(id.0 & MASK);
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

    /// The upper and the lower half of its bits.
    pub(crate) fn halves(self) -> (u64, u64) {
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
        (half(self.0 >> 64), half(self.0))
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
    fn no_id_tells_the_next_one() {
        let rest = |id: Id| id.0 & super::MASK;
        let ids: Vec<_> = (0..1_000).map(|_| rest(new_id(Timestamp::from_millis(1)))).collect();
        for pair in ids.windows(2) {
            let (one, other) = (pair[0], pair[1]);
            assert!(one.abs_diff(other) > 1 << 32, "{one:x} {other:x}");
            assert_eq!(super::encrypt(super::decrypt(one)), one);
        }
        // About half of the bits change from one to the next.
        let changed: u32 = ids.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones()).sum();
        assert!((38_000..42_000).contains(&changed), "{changed}");
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
