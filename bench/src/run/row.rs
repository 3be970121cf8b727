//! One line of the result: a number for each side, round by round, their ratio, and the promise
//! about it.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

/// One number, once for each round.
#[derive(Debug, Clone)]
pub(super) struct Series(Vec<f64>);

impl Series {
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        if sorted.len() % 2 == 1 {
            at(middle)
        } else {
            f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
        }
    }

    /// The minimum and the maximum.
    pub(super) fn range(&self) -> (f64, f64) {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least, most)
    }

    /// Combines with another, round by round.
    pub(super) fn with(&self, other: &Series, combine: impl Fn(f64, f64) -> f64) -> Series {
        self.0.iter().zip(&other.0).map(|(one, other)| combine(*one, *other)).collect()
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(numbers: I) -> Series {
        Series(numbers.into_iter().collect())
    }
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Series", 2)?;
        fields.serialize_field("median", &self.median())?;
        fields.serialize_field("rounds", &self.0)?;
        fields.end()
    }
}

/// The bound on a row's ratio, or on its number if it has no ratio.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Promise {
    AtLeast(f64),
    AtMost(f64),
}

impl Promise {
    pub(super) fn is_kept(self, number: f64) -> bool {
        match self {
            Promise::AtLeast(bound) => number >= bound,
            Promise::AtMost(bound) => number <= bound,
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Promise::AtLeast(bound) => write!(f, ">= {bound}"),
            Promise::AtMost(bound) => write!(f, "<= {bound}"),
        }
    }
}

/// One line of the result.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) scenario: &'static str,
    pub(super) what: String,
    pub(super) unit: &'static str,
    /// The upstream without a proxy.
    pub(super) direct: Option<Series>,
    /// The baseline of the gateway: the pass-through, or an ordinary gateway.
    pub(super) beside: Option<Series>,
    pub(super) gateway: Series,
    /// The ratio of the gateway to its baseline, within each round.
    pub(super) ratio: Option<Series>,
    pub(super) promise: Option<Promise>,
}

impl Row {
    /// A row with only the gateway's number.
    pub(super) fn alone(
        scenario: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        gateway: Series,
    ) -> Row {
        let what = what.into();
        Row {
            scenario,
            what,
            unit,
            direct: None,
            beside: None,
            gateway,
            ratio: None,
            promise: None,
        }
    }

    /// A row with the gateway's number and that of a baseline.
    pub(super) fn beside(
        scenario: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        [beside, gateway]: [Series; 2],
    ) -> Row {
        let ratio = gateway.with(&beside, |gateway, beside| gateway / beside);
        let row = Row::alone(scenario, what, unit, gateway);
        Row { beside: Some(beside), ratio: Some(ratio), ..row }
    }

    pub(super) fn promising(self, promise: Promise) -> Row {
        Row { promise: Some(promise), ..self }
    }

    /// Whether the promise is kept, if there is one.
    pub(super) fn is_kept(&self) -> Option<bool> {
        let judged = self.ratio.as_ref().unwrap_or(&self.gateway);
        self.promise.map(|promise| promise.is_kept(judged.median()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Promise, Row, Series};

    fn series(numbers: &[f64]) -> Series {
        numbers.iter().copied().collect()
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios() {
        let beside = series(&[10.0, 20.0, 40.0]);
        let gateway = series(&[9.0, 10.0, 32.0]);
        let row = Row::beside("s", "w", "u", [beside, gateway]).promising(Promise::AtLeast(0.75));
        assert_eq!(
            row.ratio.as_ref().map(|ratio| ratio.median().to_string()).as_deref(),
            Some("0.8")
        );
        assert_eq!(row.is_kept(), Some(true));
    }

    #[test]
    fn a_promise_without_a_ratio_is_about_the_number_itself() {
        let row = Row::alone("s", "w", "MiB", series(&[26.0])).promising(Promise::AtMost(25.0));
        assert_eq!(row.is_kept(), Some(false));
    }

    #[test]
    fn the_median_of_an_even_count_is_between_the_middle_values() {
        assert_eq!(series(&[4.0, 1.0, 3.0, 2.0]).median().to_string(), "2.5");
    }
}
