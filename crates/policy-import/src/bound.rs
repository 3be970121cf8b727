//! How many calls a limit on a counter allows.
//!
//! The older proxy checked a counter twice. It compared every condition with the value before the
//! call. Then it added the call's amount, and compared the sum with the bound of the first `lt` or
//! `lte` on the rule's own counter, truncated to a whole number and, for `lt`, minus one. Our
//! limits compare the sum, so the second check carries over as it is. The first one carries over if
//! the amount is known beforehand.

use sluice_policy::Decimal;

/// The two operators that bound a counter from above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    Lt,
    Lte,
}

/// The whole part of a non-negative number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    floor: u64,
    exact: bool,
}

impl Below {
    pub(super) fn from_name(name: &str) -> Option<Below> {
        match name {
            "lt" => Some(Below::Lt),
            "lte" => Some(Below::Lte),
            _ => None,
        }
    }
}

impl Whole {
    /// Parses a JSON number; `None` if it is negative.
    pub(super) fn read(text: &str) -> Option<Whole> {
        let number = Decimal::read(text);
        if number.is_negative() {
            return None;
        }
        let places = usize::try_from(number.magnitude()).unwrap_or(0);
        // A counter of calls never reaches 2^64, so further digits do not matter.
        let digits = number.digits().chain(std::iter::repeat(0)).take(places.min(21));
        let floor = digits
            .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit)));
        Some(Whole { floor, exact: number.length() <= places })
    }

    /// The maximum of the counter after the call; `None` if no call is allowed.
    pub(super) fn after(self, below: Below) -> Option<u64> {
        match below {
            Below::Lte => Some(self.floor),
            Below::Lt => self.floor.checked_sub(1),
        }
    }

    /// The maximum of the counter before the call; `None` if no call is allowed.
    pub(super) fn before(self, below: Below) -> Option<u64> {
        match below {
            Below::Lt if self.exact => self.floor.checked_sub(1),
            Below::Lt | Below::Lte => Some(self.floor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Below, Whole};

    fn check(text: &str, after: [Option<u64>; 2], before: [Option<u64>; 2]) {
        let whole = Whole::read(text).unwrap();
        assert_eq!([whole.after(Below::Lt), whole.after(Below::Lte)], after, "{text} after");
        assert_eq!([whole.before(Below::Lt), whole.before(Below::Lte)], before, "{text} before");
    }

    #[test]
    fn bounds_are_truncated_to_whole_numbers() {
        check("0", [None, Some(0)], [None, Some(0)]);
        check("0.5", [None, Some(0)], [Some(0), Some(0)]);
        check("10", [Some(9), Some(10)], [Some(9), Some(10)]);
        check("2.5", [Some(1), Some(2)], [Some(2), Some(2)]);
        check("1e3", [Some(999), Some(1000)], [Some(999), Some(1000)]);
        check("250.00", [Some(249), Some(250)], [Some(249), Some(250)]);
        check("1e30", [Some(u64::MAX - 1), Some(u64::MAX)], [Some(u64::MAX - 1), Some(u64::MAX)]);
        assert_eq!(Whole::read("-1"), None);
        assert_eq!(Whole::read("-0").map(|whole| whole.floor), Some(0));
    }
}
