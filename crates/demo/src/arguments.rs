//! Reads a call's arguments, with error messages that say what is expected.

use std::ops::RangeInclusive;

use sluice_wire::json::Value;

use crate::{
    decimal::Decimal,
    ledger::{LARGEST_PAYMENT, Money},
};

/// The arguments of one call, all of them known.
pub(crate) struct Arguments<'a> {
    object: Option<Value<'a>>,
}

impl<'a> Arguments<'a> {
    /// Reads the arguments of a tool, which may only be the `known` ones.
    pub(crate) fn read(object: Option<Value<'a>>, known: &[&str]) -> Result<Self, String> {
        for (key, _) in object.and_then(Value::members).into_iter().flatten() {
            let key = key.as_str().unwrap_or_default();
            if !known.contains(&key) {
                let key: String = key.chars().take(64).collect();
                return Err(match known {
                    [] => format!("unknown argument `{key}`: this tool takes none"),
                    _ => format!("unknown argument `{key}`: expected `{}`", known.join("`, `")),
                });
            }
        }
        Ok(Arguments { object })
    }

    fn get(&self, key: &str) -> Option<Value<'a>> {
        self.object.and_then(|object| object.get(key))
    }

    /// A required text.
    pub(crate) fn text(&self, key: &str, most: usize) -> Result<&'a str, String> {
        self.optional_text(key, most)?.ok_or_else(|| text_expected(key, most))
    }

    /// An optional text.
    pub(crate) fn optional_text(&self, key: &str, most: usize) -> Result<Option<&'a str>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let fits = |text: &&str| !text.is_empty() && text.chars().count() <= most;
        value.as_str().filter(fits).map(Some).ok_or_else(|| text_expected(key, most))
    }

    /// An optional whole number.
    pub(crate) fn optional_whole(
        &self,
        key: &str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let whole = value
            .as_number()
            .and_then(Decimal::read)
            .and_then(|number| number.to_units(0))
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| range.contains(number));
        let (from, to) = (range.start(), range.end());
        whole.map(Some).ok_or_else(|| format!("`{key}` must be a whole number from {from} to {to}"))
    }

    /// A required payment.
    pub(crate) fn money(&self, key: &str) -> Result<Money, String> {
        self.get(key)
            .and_then(Value::as_number)
            .and_then(Decimal::read)
            .and_then(|number| number.to_units(2))
            .and_then(|cents| i64::try_from(cents).ok())
            .map(Money::from_cents)
            .filter(|&amount| amount > Money::ZERO && amount <= LARGEST_PAYMENT)
            .ok_or_else(|| {
                format!(
                    "`{key}` must be a number above 0, at most {LARGEST_PAYMENT}, \
                     with no more than two decimals"
                )
            })
    }
}

fn text_expected(key: &str, most: usize) -> String {
    format!("`{key}` must be a string of 1 to {most} characters")
}
