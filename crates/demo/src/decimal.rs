//! Exact decimals: parsed from the text of a number, never rounded.

use std::fmt;

/// `units` divided by ten to the power of `places`.
///
/// INVARIANT: no trailing zeros after the decimal point, so that equal numbers are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    units: i128,
    places: u32,
}

/// Enough for any amount of money, and few enough to add two of them without overflow.
const MOST_PLACES: u32 = 18;

impl Decimal {
    pub(crate) const ZERO: Decimal = Decimal { units: 0, places: 0 };

    /// A whole number.
    pub(crate) fn whole(number: i128) -> Self {
        Decimal { units: number, places: 0 }
    }

    /// A number of hundredths.
    pub(crate) fn hundredths(number: i64) -> Self {
        Decimal { units: i128::from(number), places: 2 }.normal()
    }

    /// Parses a JSON number, unless it has too many digits.
    pub(crate) fn read(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        let units: i128 = format!("{whole}{fraction}").parse().ok()?;
        if units == 0 {
            return Some(Decimal::ZERO);
        }
        let exponent: i64 = exponent.parse().ok()?;
        let places = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        if let Ok(places) = u32::try_from(places) {
            return Decimal { units, places }.normal().within_bounds();
        }
        let zeros = u32::try_from(places.checked_neg()?).ok()?;
        Some(Decimal::whole(units.checked_mul(power_of_ten(zeros)?)?))
    }

    /// The number of units with this many decimal places, if it is a whole number of them.
    pub(crate) fn to_units(self, places: u32) -> Option<i128> {
        self.units.checked_mul(power_of_ten(places.checked_sub(self.places)?)?)
    }

    pub(crate) fn plus(self, other: Decimal) -> Option<Decimal> {
        let places = self.places.max(other.places);
        let units = self.to_units(places)?.checked_add(other.to_units(places)?)?;
        Some(Decimal { units, places }.normal())
    }

    pub(crate) fn times(self, other: Decimal) -> Option<Decimal> {
        let units = self.units.checked_mul(other.units)?;
        Decimal { units, places: self.places + other.places }.normal().within_bounds()
    }

    pub(crate) fn negate(self) -> Option<Decimal> {
        Some(Decimal { units: self.units.checked_neg()?, ..self })
    }

    fn within_bounds(self) -> Option<Decimal> {
        (self.places <= MOST_PLACES).then_some(self)
    }

    fn normal(mut self) -> Self {
        while self.places > 0 && self.units % 10 == 0 {
            self.units /= 10;
            self.places -= 1;
        }
        self
    }
}

fn power_of_ten(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.units < 0 { "-" } else { "" };
        let units = self.units.unsigned_abs();
        if self.places == 0 {
            return write!(f, "{sign}{units}");
        }
        // INVARIANT: `MOST_PLACES` keeps the power within its type.
        let one = 10_u128.pow(self.places.min(MOST_PLACES));
        let width = self.places as usize;
        write!(f, "{sign}{}.{:0width$}", units / one, units % one)
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    fn check(text: &str, expected: Option<&str>) {
        let shown = Decimal::read(text).map(|number| number.to_string());
        assert_eq!(shown.as_deref(), expected, "{text}");
    }

    #[test]
    fn numbers_are_read_exactly() {
        check("0", Some("0"));
        check("-0.000", Some("0"));
        check("0e99999999999999999999", Some("0"));
        check("42.50", Some("42.5"));
        check("-0.05", Some("-0.05"));
        check("1e2", Some("100"));
        check("1.25E+1", Some("12.5"));
        check("500e-3", Some("0.5"));
        check("100.00000000000000000000000000000000000000000000000000", Some("100"));
        check("0.000000000000000001", Some("0.000000000000000001"));
    }

    #[test]
    fn numbers_with_too_many_digits_are_refused() {
        check("1e39", None);
        check("1e-19", None);
        check("1e99999999999999999999", None);
        check("0.0000000000000000001", None);
        check(&"9".repeat(40), None);
    }

    #[test]
    fn arithmetic_is_exact_or_fails() {
        let read = |text| Decimal::read(text).unwrap();
        assert_eq!(read("0.1").plus(read("0.2")), Some(read("0.3")));
        assert_eq!(read("0.5").times(read("0.20")), Some(read("0.1")));
        assert_eq!(read("0.0000000001").times(read("0.0000000001")), None);
        assert_eq!(read("1e20").times(read("1e20")), None);
        assert_eq!(read("12.345").to_units(2), None);
        assert_eq!(read("12.3").to_units(2), Some(1230));
    }
}
