//! Exact decimals, read from the text of a JSON number and compared digit by digit.
//!
//! Nothing is rounded and nothing is allocated: a number of a thousand digits
//! compares as exactly as `1`.

use std::cmp::Ordering;

/// A parsed JSON number: `0.d1d2d3… × 10^magnitude`, with `d1` not zero.
#[derive(Debug, Clone, Copy)]
pub struct Decimal<'t> {
    negative: bool,
    /// The significant digits, in two parts because the decimal point may be between them.
    digits: (&'t [u8], &'t [u8]),
    magnitude: i64,
}

/// Exponents in a policy are smaller than this. An argument's exponent saturates far above it, so
/// the two can never be confused.
pub(crate) const LARGEST_EXPONENT: u64 = 1_000_000;

impl<'t> Decimal<'t> {
    /// Reads `text`, which must be a JSON number.
    pub fn read(text: &'t str) -> Decimal<'t> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let whole = without_leading_zeros(whole.as_bytes());
        let fraction = without_trailing_zeros(fraction.as_bytes());
        let significant = without_leading_zeros(fraction);
        let (digits, point) = if !whole.is_empty() && fraction.is_empty() {
            ((without_trailing_zeros(whole), fraction), whole.len())
        } else if whole.is_empty() {
            ((whole, significant), 0)
        } else {
            ((whole, fraction), whole.len())
        };
        if digits.0.is_empty() && digits.1.is_empty() {
            return Decimal { negative: false, digits, magnitude: 0 };
        }
        let zeros = if whole.is_empty() { fraction.len() - significant.len() } else { 0 };
        let magnitude = saturating_integer(exponent)
            .saturating_add(saturating(point))
            .saturating_sub(saturating(zeros));
        Decimal { negative, digits, magnitude }
    }

    /// Whether this is below zero; `-0` is not.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// The power of ten just above the number; 0 for zero.
    pub fn magnitude(&self) -> i64 {
        self.magnitude
    }

    /// The significant digits as values 0 to 9, first one not zero.
    pub fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.digits.0.iter().chain(self.digits.1).map(|digit| digit - b'0')
    }

    /// How many significant digits there are.
    pub fn length(&self) -> usize {
        self.digits.0.len() + self.digits.1.len()
    }

    fn is_zero(&self) -> bool {
        self.length() == 0
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal<'_> {}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.is_zero(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        // There are no trailing zeros, so of two numbers with the same prefix the longer one is
        // larger, which is how iterators compare.
        let size =
            || self.magnitude.cmp(&other.magnitude).then_with(|| self.digits().cmp(other.digits()));
        sign(self).cmp(&sign(other)).then_with(|| match sign(self) {
            0 => Ordering::Equal,
            1 => size(),
            _ => size().reverse(),
        })
    }
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    digits.get(zeros..).unwrap_or_default()
}

fn without_trailing_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    digits.get(..digits.len() - zeros).unwrap_or_default()
}

fn saturating(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Parses an exponent; beyond 64 bits, it saturates.
fn saturating_integer(text: &str) -> i64 {
    let bound = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    text.parse().unwrap_or(bound)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::Decimal;

    fn check(left: &str, right: &str, expected: Ordering) {
        let (a, b) = (Decimal::read(left), Decimal::read(right));
        assert_eq!(a.cmp(&b), expected, "{left} against {right}");
        assert_eq!(b.cmp(&a), expected.reverse(), "{right} against {left}");
    }

    #[test]
    fn equal_decimals_are_equal_in_any_spelling() {
        for text in ["10", "10.0", "1e1", "1E+1", "100e-1", "0.1e2", "10.000", "0.00001e6"] {
            check(text, "10", Ordering::Equal);
        }
        for text in ["0", "-0", "0.0", "0e99999999999999999999", "-0.00e-5"] {
            check(text, "0", Ordering::Equal);
        }
        check("0.001", "1e-3", Ordering::Equal);
        check("120.050", "120.05", Ordering::Equal);
    }

    #[test]
    fn decimals_compare_by_every_digit() {
        check("10000.0000000000000001", "10000", Ordering::Greater);
        check("18446744073709551616", "18446744073709551615", Ordering::Greater);
        check("0.1", "0.10000000000000000000000000001", Ordering::Less);
        check("0.09", "0.1", Ordering::Less);
        check("99", "100", Ordering::Less);
        check("-99", "-100", Ordering::Greater);
        check("-1", "1", Ordering::Less);
        check("-0.5", "0", Ordering::Less);
    }

    #[test]
    fn decimals_with_huge_and_tiny_exponents_compare() {
        check("1e400", "1e399", Ordering::Greater);
        check("1e-400", "0", Ordering::Greater);
        check("1e99999999999999999999", "1e1000000", Ordering::Greater);
        check("1e-99999999999999999999", "1e-1000000", Ordering::Less);
        check("-1e99999999999999999999", "5", Ordering::Less);
    }
}
