//! Amounts: exact, non-negative decimals that counters hold and charges add.
//!
//! Eighteen decimal places cover every currency in use, and sums are whole
//! numbers of the smallest unit, so adding never rounds.

use std::fmt;

use sluice_wire::json::{Bounds, Document};

use crate::decimal::Decimal;

/// Decimal places of an [`Amount`].
const PLACES: u32 = 18;
const UNITS: u64 = 10_u64.pow(PLACES);

/// A non-negative decimal, exact to 18 places and below 2^128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount {
    // The derived comparison relies on the order of the fields.
    whole: u128,
    /// Units of 10^-18. INVARIANT: below [`UNITS`].
    fraction: u64,
}

/// Why a number is not a valid amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    #[error("must not be negative")]
    Negative,
    #[error("is too large to count")]
    TooLarge,
    #[error("has more than 18 decimal places")]
    TooFine,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount { whole: 0, fraction: 0 };
    /// One call.
    pub const ONE: Amount = Amount { whole: 1, fraction: 0 };
    /// The largest amount.
    pub const MAX: Amount = Amount { whole: u128::MAX, fraction: UNITS - 1 };

    /// A whole amount.
    pub const fn whole(whole: u64) -> Amount {
        Amount { whole: whole as u128, fraction: 0 }
    }

    /// The exact amount of a number.
    pub fn exactly(number: Decimal<'_>) -> Result<Amount, AmountError> {
        if number.is_negative() {
            return Err(AmountError::Negative);
        }
        let length = i64::try_from(number.length()).unwrap_or(i64::MAX);
        let places = length.saturating_sub(number.magnitude());
        if number.magnitude() > 39 {
            Err(AmountError::TooLarge)
        } else if places > i64::from(PLACES) {
            Err(AmountError::TooFine)
        } else {
            collect(number).ok_or(AmountError::TooLarge)
        }
    }

    /// The exact amount of a JSON number; the error says what is wrong with the text.
    pub fn from_json(text: &str) -> Result<Amount, String> {
        let document = Document::parse(text, &Bounds::default()).ok();
        let number = document.as_ref().and_then(|document| document.root().as_number());
        let number = number.ok_or("must be a number")?;
        Amount::exactly(Decimal::read(number)).map_err(|error| error.to_string())
    }

    /// The largest amount that is not above `number`, for comparing with it.
    pub(crate) fn at_most(number: Decimal<'_>) -> Amount {
        if number.is_negative() || number.magnitude() < -i64::from(PLACES) {
            Amount::ZERO
        } else if number.magnitude() > 39 {
            Amount::MAX
        } else {
            collect(number).unwrap_or(Amount::MAX)
        }
    }

    /// The sum, or `None` on overflow.
    pub fn checked_add(self, other: Amount) -> Option<Amount> {
        let fraction = self.fraction + other.fraction;
        let (carry, fraction) =
            if fraction >= UNITS { (1, fraction - UNITS) } else { (0, fraction) };
        let whole = self.whole.checked_add(other.whole)?.checked_add(carry)?;
        Some(Amount { whole, fraction })
    }

    /// The difference, or `None` if `other` is larger.
    pub fn checked_sub(self, other: Amount) -> Option<Amount> {
        let (borrow, fraction) = if self.fraction >= other.fraction {
            (0, self.fraction - other.fraction)
        } else {
            (1, self.fraction + UNITS - other.fraction)
        };
        let whole = self.whole.checked_sub(other.whole)?.checked_sub(borrow)?;
        Some(Amount { whole, fraction })
    }
}

/// Splits the digits at the decimal point, and drops those finer than a unit.
fn collect(number: Decimal<'_>) -> Option<Amount> {
    let mut amount = Amount::ZERO;
    let mut position = number.magnitude();
    for digit in number.digits() {
        position -= 1;
        if let Ok(power) = u32::try_from(position) {
            let unit = 10_u128.checked_pow(power)?;
            amount.whole = amount.whole.checked_add(unit.checked_mul(u128::from(digit))?)?;
        } else {
            let place = u32::try_from(-position).ok()?;
            let unit = PLACES.checked_sub(place).map_or(0, |power| 10_u64.pow(power));
            amount.fraction += unit * u64::from(digit);
        }
    }
    Some(amount)
}

impl fmt::Display for Amount {
    /// Plain decimal text, which is also a JSON number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fraction == 0 {
            return self.whole.fmt(f);
        }
        let fraction = format!("{:018}", self.fraction);
        write!(f, "{}.{}", self.whole, fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, AmountError};
    use crate::decimal::Decimal;

    fn check(text: &str, expected: Result<&str, AmountError>) {
        let amount = Amount::exactly(Decimal::read(text)).map(|amount| amount.to_string());
        assert_eq!(amount, expected.map(String::from), "{text}");
    }

    #[test]
    fn numbers_become_amounts_exactly() {
        check("0", Ok("0"));
        check("-0", Ok("0"));
        check("10", Ok("10"));
        check("12.50", Ok("12.5"));
        check("1e3", Ok("1000"));
        check("25e-2", Ok("0.25"));
        check("0.000000000000000001", Ok("0.000000000000000001"));
        check("1.00000000000000000000000", Ok("1"));
        check(
            "340282366920938463463374607431768211455",
            Ok("340282366920938463463374607431768211455"),
        );
    }

    #[test]
    fn amounts_out_of_range_are_refused() {
        check("-1", Err(AmountError::Negative));
        check("-0.01", Err(AmountError::Negative));
        check("340282366920938463463374607431768211456", Err(AmountError::TooLarge));
        check("1e400", Err(AmountError::TooLarge));
        check("1e99999999999999999999", Err(AmountError::TooLarge));
        check("1e-19", Err(AmountError::TooFine));
        check("1e-99999999999999999999", Err(AmountError::TooFine));
        check("0.1234567890123456789", Err(AmountError::TooFine));
    }

    #[test]
    fn bounds_round_down_and_saturate() {
        let bound = |text| Amount::at_most(Decimal::read(text)).to_string();
        assert_eq!(bound("0.1234567890123456789"), "0.123456789012345678");
        assert_eq!(bound("1e-30"), "0");
        assert_eq!(bound("10"), "10");
        assert_eq!(Amount::at_most(Decimal::read("1e400")), Amount::MAX);
        assert_eq!(
            Amount::at_most(Decimal::read("999999999999999999999999999999999999999")),
            Amount::MAX
        );
    }

    #[test]
    fn sums_carry_and_never_wrap() {
        let amount = |text| Amount::exactly(Decimal::read(text)).unwrap();
        assert_eq!(amount("0.6").checked_add(amount("0.4")), Some(Amount::ONE));
        assert_eq!(Amount::MAX.checked_add(Amount::ONE), None);
        assert_eq!(Amount::MAX.checked_add(amount("1e-18")), None);
        assert_eq!(amount("1").checked_sub(amount("0.4")), Some(amount("0.6")));
        assert_eq!(amount("1").checked_sub(amount("1.1")), None);
    }
}
