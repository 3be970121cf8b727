//! Typed values in the file: sizes, durations, words.

pub(super) mod network;

use std::time::Duration;

use sluice_policy::Timestamp;
use sluice_store::Durability;
use toml::de::DeValue;

use super::section::nearest;
use crate::span;

/// A parsed value, or a description of the expected one.
pub(super) type Parsed<T> = Result<T, Wrong>;

/// Why a value was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Completes the sentence "`key` must be …".
    pub(super) expected: String,
    pub(super) hint: Option<String>,
}

impl Wrong {
    pub(super) fn with_hint(expected: &str, hint: String) -> Wrong {
        Wrong { expected: expected.into(), hint: Some(hint) }
    }
}

impl From<&str> for Wrong {
    fn from(expected: &str) -> Wrong {
        Wrong { expected: expected.into(), hint: None }
    }
}

/// Units of size, largest first.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A text that is not empty.
pub(super) fn text(value: &DeValue<'_>) -> Parsed<String> {
    let text = value.as_str().filter(|text| !text.is_empty()).ok_or("a text")?;
    if text.chars().any(char::is_control) {
        return Err("a text without control characters".into());
    }
    Ok(text.to_owned())
}

/// A size such as `4MiB`, or a number of bytes.
pub(super) fn size(value: &DeValue<'_>) -> Parsed<u64> {
    const EXPECTED: &str = "a size such as `4MiB`, `512KiB` or a number of bytes";
    if let DeValue::Integer(number) = value {
        return integer(number).filter(|bytes| *bytes > 0).ok_or_else(|| EXPECTED.into());
    }
    let written = value.as_str().ok_or(EXPECTED)?;
    let (number, unit) = number_and_unit(written).ok_or(EXPECTED)?;
    match SIZES.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => number.checked_mul(*factor).ok_or_else(|| EXPECTED.into()),
        None => Err(match unit.to_lowercase().chars().next() {
            Some(first @ ('k' | 'm' | 'g')) => {
                let unit = format!("{}iB", first.to_uppercase());
                Wrong::with_hint(EXPECTED, format!("write `{number}{unit}`"))
            }
            _ => EXPECTED.into(),
        }),
    }
}

/// A span of time such as `60s`, `15m`, `12h` or `90d`.
pub(super) fn duration(value: &DeValue<'_>) -> Parsed<Duration> {
    if let DeValue::Integer(number) = value {
        return Err(Wrong::with_hint(span::EXPECTED, format!("for seconds, write \"{number}s\"")));
    }
    value.as_str().and_then(span::read).ok_or_else(|| span::EXPECTED.into())
}

/// Splits a whole number of at least 1 from its unit.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some((number, unit.trim_start_matches(' ')))
}

/// Formats a size in the same notation.
pub(super) fn format_size(bytes: u64) -> String {
    let whole = SIZES.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    whole.map_or_else(|| bytes.to_string(), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

/// A whole number from 1 to `most`.
pub(super) fn count(most: u64) -> impl Fn(&DeValue<'_>) -> Parsed<u64> {
    move |value| {
        value
            .as_integer()
            .and_then(integer)
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| Wrong::from(&*format!("a number from 1 to {most}")))
    }
}

/// A size of at most `most` bytes.
pub(super) fn size_up_to(most: u64) -> impl Fn(&DeValue<'_>) -> Parsed<u64> {
    move |value| match size(value)? {
        bytes if bytes <= most => Ok(bytes),
        _ => Err(Wrong::from(&*format!("at most `{}`", format_size(most)))),
    }
}

fn integer(number: &toml::de::DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// `true` or `false`.
pub(super) fn boolean(value: &DeValue<'_>) -> Parsed<bool> {
    value.as_bool().ok_or_else(|| "`true` or `false`".into())
}

/// The durability of a committed write.
pub(super) fn durability(value: &DeValue<'_>) -> Parsed<Durability> {
    const EXPECTED: &str = "one of `process`, `power`";
    match value.as_str() {
        Some("process") => Ok(Durability::Process),
        Some("power") => Ok(Durability::Power),
        other => Err(match other.and_then(|word| nearest(word, &["process", "power"])) {
            Some(near) => Wrong::with_hint(EXPECTED, format!("did you mean `{near}`?")),
            None => EXPECTED.into(),
        }),
    }
}

/// A path into a call's arguments, in the notation of policies.
pub(super) fn argument_path(value: &DeValue<'_>) -> Parsed<String> {
    const EXPECTED: &str = "a path into the arguments such as `args.query`";
    let path = text(value).map_err(|_| Wrong::from(EXPECTED))?;
    match path.strip_prefix("args.") {
        Some(names) if names.split('.').all(|name| !name.is_empty()) => Ok(path),
        Some(_) => Err(EXPECTED.into()),
        None => Err(Wrong::with_hint(EXPECTED, format!("write `args.{path}`"))),
    }
}

/// A point in time: a TOML date-time with an offset, or the same as a string.
pub(super) fn moment(value: &DeValue<'_>) -> Parsed<Timestamp> {
    const EXPECTED: &str = "a time with its offset, such as `2027-01-31T12:00:00Z`";
    let moment = match value {
        DeValue::Datetime(time) => Timestamp::from_rfc3339(&time.to_string()),
        other => other.as_str().and_then(Timestamp::from_rfc3339),
    };
    moment.ok_or_else(|| EXPECTED.into())
}

#[cfg(test)]
mod tests {
    use std::{fmt::Debug, time::Duration};

    use sluice_store::Durability;
    use toml::de::DeValue;

    use super::*;

    #[track_caller]
    pub(super) fn check<T: PartialEq + Debug>(
        parse: impl Fn(&DeValue<'_>) -> Parsed<T>,
        toml: &str,
        expected: impl Into<Option<T>>,
    ) {
        let value = DeValue::parse(toml).unwrap();
        assert_eq!(parse(value.get_ref()).ok(), expected.into(), "{toml}");
    }

    #[track_caller]
    pub(super) fn hints<T: Debug>(
        parse: impl Fn(&DeValue<'_>) -> Parsed<T>,
        toml: &str,
        hint: &str,
    ) {
        let value = DeValue::parse(toml).unwrap();
        assert_eq!(parse(value.get_ref()).unwrap_err().hint.as_deref(), Some(hint), "{toml}");
    }

    #[test]
    fn sizes_have_binary_units() {
        check(size, r#""4MiB""#, Some(4 << 20));
        check(size, r#""512 KiB""#, Some(512 << 10));
        check(size, r#""10GiB""#, Some(10 << 30));
        check(size, "1_000", Some(1000));
        for wrong in ["0", "-1", "1.5", r#""4""#, r#""""#, r#""MiB""#, r#""99999999999GiB""#] {
            check(size, wrong, None);
        }
        hints(size, r#""4MB""#, "write `4MiB`");
        hints(size, r#""16k""#, "write `16KiB`");
        check(size_up_to(1 << 20), r#""2MiB""#, None);
    }

    #[test]
    fn spans_of_time_are_whole() {
        check(duration, r#""60s""#, Some(Duration::from_mins(1)));
        check(duration, r#""90d""#, Some(Duration::from_hours(90 * 24)));
        for wrong in [r#""500ms""#, r#""0s""#, r#""1.5h""#, r#""s""#, r#""99999999d""#, "true"] {
            check(duration, wrong, None);
        }
        hints(duration, "60", "for seconds, write \"60s\"");
    }

    #[test]
    fn sizes_are_formatted_in_the_largest_whole_unit() {
        assert_eq!(format_size(4 << 20), "4MiB");
        assert_eq!(format_size(1000), "1000B");
    }

    #[test]
    fn words_numbers_paths_and_times_are_parsed() {
        check(durability, r#""power""#, Some(Durability::Power));
        hints(durability, r#""proces""#, "did you mean `process`?");
        check(count(128), "64", Some(64));
        check(count(128), "129", None);
        check(argument_path, r#""args.items.*.id""#, Some("args.items.*.id".into()));
        check(argument_path, r#""args.""#, None);
        hints(argument_path, r#""query""#, "write `args.query`");
        let noon = Timestamp::from_rfc3339("2027-01-31T12:00:00Z");
        check(moment, "2027-01-31T12:00:00Z", noon);
        check(moment, r#""2027-01-31T13:00:00+01:00""#, noon);
        check(moment, "2027-01-31T12:00:00", None);
        check(moment, "2027-01-31", None);
    }
}
