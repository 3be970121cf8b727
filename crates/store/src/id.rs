//! Ids that sort by the time they were made: 48 bits of milliseconds and 80
//! random ones, in the 26 letters and digits of a ULID.

use sluice_policy::Timestamp;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A new id for something that happens at `at`; `None` if the system gives no randomness.
pub fn new_id(at: Timestamp) -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(random.get_mut(6..)?).ok()?;
    let millis = u64::try_from(at.as_millis()).unwrap_or(0);
    let number = u128::from(millis) << 80 | u128::from_be_bytes(random);
    let letter = |place: u32| {
        let digit = usize::try_from(number >> (place * 5) & 31).ok()?;
        ALPHABET.get(digit).map(|letter| char::from(*letter))
    };
    (0..26).rev().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use sluice_policy::Timestamp;

    use super::new_id;

    #[test]
    fn ids_sort_by_time_and_differ() {
        let id = |millis| new_id(Timestamp::from_millis(millis)).unwrap();
        assert_eq!(id(1_700_000_000_000).len(), 26);
        assert!(id(1_700_000_000_000) < id(1_700_000_000_001));
        assert_ne!(id(1), id(1));
        // The first ten letters are the time.
        assert!(id(1_469_918_176_385).starts_with("01ARYZ6S41"));
    }
}
