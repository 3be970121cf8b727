//! Exact decimal numbers of any size, read from the text on the wire; there are no
//! floats here.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, Sign};
use serde_json::Value;

/// The value `mantissa * 10^exponent`, always in lowest form: the mantissa does not end
/// in zero, and zero is `0 * 10^0`.
///
/// The form is unique, so that derived equality is equality of numbers. The exponent is
/// a big integer too, because the wire may say `1e99999999999999999999` and that number
/// must still compare rightly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    mantissa: BigInt,
    exponent: BigInt,
}

impl Decimal {
    /// Reads a number in JSON's notation; `None` if the text is none.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (plain, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((plain, exponent)) => (plain, exponent.parse::<BigInt>().ok()?),
            None => (unsigned, BigInt::from(0)),
        };
        let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
        let digits = format!("{whole}{fraction}");
        if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let exponent = exponent - BigInt::from(fraction.len());
        Some(Decimal::lowest(negative, &digits, exponent))
    }

    /// The number a JSON value holds; `None` for anything but a number.
    pub(crate) fn of(value: &Value) -> Option<Decimal> {
        match value {
            Value::Number(number) => Decimal::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Brings digits and an exponent into lowest form.
    fn lowest(negative: bool, digits: &str, exponent: BigInt) -> Decimal {
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return Decimal { mantissa: BigInt::from(0), exponent: BigInt::from(0) };
        }
        let magnitude = kept.parse::<BigInt>().unwrap_or_default();
        Decimal {
            mantissa: if negative { -magnitude } else { magnitude },
            exponent: exponent + BigInt::from(digits.len() - kept.len()),
        }
    }

    /// The digits without sign.
    fn digits(&self) -> String {
        self.mantissa.magnitude().to_string()
    }

    /// Where the first digit stands relative to the decimal point: a number in `[0.1,
    /// 1)` has 0, one in `[1, 10)` has 1.
    fn height(&self) -> BigInt {
        BigInt::from(self.digits().len()) + &self.exponent
    }

    /// Whether the number is below zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.mantissa.sign() == Sign::Minus
    }

    /// How many decimals the number needs once trailing zeros are dropped.
    pub(crate) fn decimals(&self) -> BigInt {
        if self.exponent.sign() == Sign::Minus { -self.exponent.clone() } else { BigInt::from(0) }
    }

    /// The sum. Both numbers must have exponents of a sane size, which holds for
    /// readings and checked amounts.
    pub(crate) fn plus(&self, other: &Decimal) -> Decimal {
        let exponent = self.exponent.clone().min(other.exponent.clone());
        let sum = self.scaled(&exponent) + other.scaled(&exponent);
        Decimal::lowest(sum.sign() == Sign::Minus, &sum.magnitude().to_string(), exponent)
    }

    /// The mantissa this number has under another exponent that is not larger than its
    /// own.
    fn scaled(&self, exponent: &BigInt) -> BigInt {
        let shift = u32::try_from(&self.exponent - exponent).unwrap_or(0);
        &self.mantissa * BigInt::from(10).pow(shift)
    }

    /// The number as `u64`, if it is whole and fits.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        if self.height() > BigInt::from(20) {
            return None;
        }
        self.to_string().parse().ok()
    }

    /// Compares two numbers that are both above zero.
    fn cmp_positive(&self, other: &Decimal) -> Ordering {
        // Of two positive numbers the one with the higher first digit is larger. Only
        // at equal height are they lined up, and then the shift is no more than the
        // number of digits written, so that huge exponents cost nothing.
        self.height().cmp(&other.height()).then_with(|| {
            let exponent = self.exponent.clone().min(other.exponent.clone());
            self.scaled(&exponent).magnitude().cmp(other.scaled(&exponent).magnitude())
        })
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        self.mantissa.sign().cmp(&other.mantissa.sign()).then_with(|| match self.mantissa.sign() {
            Sign::Minus => other.cmp_positive(self),
            Sign::NoSign => Ordering::Equal,
            Sign::Plus => self.cmp_positive(other),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Decimal {
        Decimal::lowest(false, &number.to_string(), BigInt::from(0))
    }
}

impl fmt::Display for Decimal {
    /// Plain decimal text; only where that would take more than ten thousand zeros is
    /// the exponent written out instead.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let digits = self.digits();
        match i32::try_from(&self.exponent) {
            Ok(zeros @ 0..=10_000) => {
                write!(out, "{sign}{digits}{}", "0".repeat(zeros.unsigned_abs() as usize))
            }
            Ok(point @ -10_000..=-1) => {
                let point = point.unsigned_abs() as usize;
                let padded =
                    format!("{}{digits}", "0".repeat((point + 1).saturating_sub(digits.len())));
                let (whole, fraction) = padded.split_at(padded.len() - point);
                write!(out, "{sign}{whole}.{fraction}")
            }
            _ => write!(out, "{sign}{digits}e{}", self.exponent),
        }
    }
}
