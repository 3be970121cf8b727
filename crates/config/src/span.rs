//! Durations in the format `60s`, `15m`, `12h`, `90d`.

use std::time::Duration;

use sluice_policy::Timestamp;

/// Completes the sentence "it must be …".
pub const EXPECTED: &str = "a span of time such as `60s`, `15m`, `12h` or `90d`";
/// Units in seconds, largest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
/// Ten years: longer than any setting needs, and short enough that adding it to a date cannot
/// overflow.
const LONGEST: u64 = 3_660 * 86_400;

/// Parses a span: a whole number of at least 1, and its unit.
pub fn read(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let unit = unit.trim_start_matches(' ');
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let seconds = number.checked_mul(*factor).filter(|seconds| *seconds <= LONGEST)?;
    Some(Duration::from_secs(seconds))
}

/// Formats a span in the same notation.
pub fn format_span(span: Duration) -> String {
    let seconds = span.as_secs();
    let whole =
        UNITS.iter().find(|(_, factor)| seconds >= *factor && seconds.is_multiple_of(*factor));
    whole.map_or_else(
        || format!("{seconds}s"),
        |(unit, factor)| format!("{}{unit}", seconds / factor),
    )
}

/// The moment a span after `now`.
pub fn after(now: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_add(millis(span)))
}

/// The moment a span before `now`.
pub fn before(now: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(millis(span)))
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_policy::Timestamp;

    use super::{after, before, format_span, read};

    #[test]
    fn spans_are_whole_and_have_a_unit() {
        assert_eq!(read("60s"), Some(Duration::from_mins(1)));
        assert_eq!(read("90d"), Some(Duration::from_hours(90 * 24)));
        for wrong in ["", "s", "60", "0s", "1.5h", "500ms", "99999999d", "-1d"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn formatted_spans_parse_to_the_same_value() {
        for text in ["90s", "1m", "36h", "2d"] {
            assert_eq!(format_span(read(text).unwrap()), text);
        }
        assert_eq!(format_span(Duration::from_hours(2)), "2h");
        assert_eq!(format_span(Duration::ZERO), "0s");
    }

    #[test]
    fn spans_are_added_to_and_subtracted_from_times() {
        let noon = Timestamp::from_millis(1_000_000);
        assert_eq!(after(noon, Duration::from_secs(1)), Timestamp::from_millis(1_001_000));
        assert_eq!(before(noon, Duration::from_secs(1)), Timestamp::from_millis(999_000));
    }
}
