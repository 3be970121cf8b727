//! How many calls a bound on a counter lets through.
//!
//! The older proxy looked at a counter twice. Every condition was compared with
//! the reading before the call. Then the call's amount was added, and the sum
//! compared once more with the bound of the first `lt` or `lte` on the rule's own
//! counter, cut to a whole number and for `lt` less one. Our limits compare the
//! sum, so the second look carries over as it is, and the first one does where
//! the amount is known beforehand.

use sluice_policy::Decimal;

/// The two operators that bound a counter from above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    Lt,
    Lte,
}

/// The whole part of a number of 0 or more.
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
    /// Reads a JSON number; `None` if it is below 0.
    pub(super) fn read(text: &str) -> Option<Whole> {
        let number = Decimal::read(text);
        if number.is_negative() {
            return None;
        }
        let places = usize::try_from(number.magnitude()).unwrap_or(0);
        // Past 2^64 a counter of calls is never full.
        let digits = number.digits().chain(std::iter::repeat(0)).take(places.min(21));
        let floor = digits
            .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit)));
        Some(Whole { floor, exact: number.length() <= places })
    }

    /// The most the counter may hold after the call; `None` if no call fits.
    pub(super) fn after(self, below: Below) -> Option<u64> {
        match below {
            Below::Lte => Some(self.floor),
            Below::Lt => self.floor.checked_sub(1),
        }
    }

    /// The most the counter may read before the call; `None` if no call fits.
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
    fn bounds_are_cut_to_whole_numbers() {
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
