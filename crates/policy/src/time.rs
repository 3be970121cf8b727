//! Timestamps, and the calendar windows of limits.
//!
//! Time is always passed in; nothing here reads a clock.

use std::fmt;

use jiff::{
    civil::{Date, Time},
    tz::Offset,
};

/// A point in time, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time that many milliseconds after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Parses an RFC 3339 time such as `2026-01-31T12:00:00Z`.
    pub fn from_rfc3339(text: &str) -> Option<Timestamp> {
        // jiff accepts other formats too.
        let moment: jiff::Timestamp = is_rfc3339(text).then(|| text.parse().ok())??;
        Some(Timestamp(moment.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, to the millisecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(moment) = jiff::Timestamp::from_millisecond(self.0) else {
            return write!(f, "{} ms", self.0);
        };
        let at = Offset::UTC.to_datetime(moment);
        if at.year() < 0 {
            return write!(f, "{moment:.3}");
        }
        // Each record has a time, so its digits are written here and not by general code.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |end: usize, digits: usize, number: i16| {
            let mut left = number;
            for digit in text.iter_mut().take(end).rev().take(digits) {
                *digit += u8::try_from(left % 10).unwrap_or_default();
                left /= 10;
            }
        };
        put(4, 4, at.year());
        put(7, 2, at.month().into());
        put(10, 2, at.day().into());
        put(13, 2, at.hour().into());
        put(16, 2, at.minute().into());
        put(19, 2, at.second().into());
        put(23, 3, at.millisecond());
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

/// Whether the text has the format of RFC 3339.
fn is_rfc3339(text: &str) -> bool {
    let fits = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't' | b' '),
                b'+' => matches!(byte, b'+' | b'-'),
                other => byte == other,
            })
    };
    let Some((seconds, rest)) = text.split_at_checked(19) else { return false };
    let offset = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let has_fraction = !rest.starts_with('.') || rest.len() - offset.len() > 1;
    fits(seconds, "0000-00-00T00:00:00")
        && has_fraction
        && (matches!(offset, "Z" | "z") || fits(offset, "+00:00"))
}

/// The period after which a counter restarts at zero.
#[derive(Debug, Clone, Copy)]
pub enum Window {
    Minute,
    Hour,
    Day,
    /// A calendar month.
    Month,
    Seconds(u32),
}

/// The longest window a policy may ask for: 31 days.
pub const LONGEST_WINDOW: u32 = 2_678_400;

impl Window {
    /// Its length, which only a month does not have.
    ///
    /// Windows with a length start at multiples of it since the Unix epoch, which for minute, hour
    /// and day is the UTC calendar.
    pub fn seconds(self) -> Option<u32> {
        match self {
            Window::Minute => Some(60),
            Window::Hour => Some(3_600),
            Window::Day => Some(86_400),
            Window::Month => None,
            Window::Seconds(seconds) => Some(seconds.max(1)),
        }
    }

    /// The start of the window that contains `at`.
    pub fn start(self, at: Timestamp) -> Timestamp {
        self.bounds(at).0
    }

    /// The end of the window that contains `at`, which is the start of the next.
    pub fn end(self, at: Timestamp) -> Timestamp {
        self.bounds(at).1
    }

    /// The milliseconds from `at` to the end of its window; at least one.
    pub fn remaining_millis(self, at: Timestamp) -> u64 {
        let left = self.end(at).0.saturating_sub(at.0);
        u64::try_from(left).unwrap_or(1).max(1)
    }

    /// The window with this name.
    pub(crate) fn from_word(word: &str) -> Option<Window> {
        match word {
            "minute" => Some(Window::Minute),
            "hour" => Some(Window::Hour),
            "day" => Some(Window::Day),
            "month" => Some(Window::Month),
            _ => None,
        }
    }

    /// The window of this many whole seconds.
    pub(crate) fn from_seconds(text: &str) -> Option<Window> {
        let seconds = text.parse().ok().filter(|seconds| (1..=LONGEST_WINDOW).contains(seconds))?;
        Some(Window::Seconds(seconds))
    }

    fn bounds(self, at: Timestamp) -> (Timestamp, Timestamp) {
        match self.seconds() {
            Some(seconds) => multiple(seconds, at),
            // Times beyond the calendar, which ends with the year 9999, still need a window.
            None => month(at).unwrap_or_else(|| multiple(LONGEST_WINDOW, at)),
        }
    }
}

/// The window of this length that contains `at`.
fn multiple(seconds: u32, at: Timestamp) -> (Timestamp, Timestamp) {
    let millis = i64::from(seconds) * 1000;
    let start = at.0.saturating_sub(at.0.rem_euclid(millis));
    (Timestamp(start), Timestamp(start.saturating_add(millis)))
}

/// The calendar month in UTC that contains `at`, if the calendar has it.
fn month(at: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let moment = jiff::Timestamp::from_millisecond(at.0).ok()?;
    let first = Offset::UTC.to_datetime(moment).date().first_of_month();
    let midnight = |date: Date| {
        let moment = Offset::UTC.to_timestamp(date.to_datetime(Time::midnight())).ok()?;
        Some(Timestamp(moment.as_millisecond()))
    };
    Some((midnight(first)?, midnight(first.last_of_month().tomorrow().ok()?)?))
}

impl PartialEq for Window {
    /// Windows of equal length are equal: all of them count from the epoch.
    fn eq(&self, other: &Window) -> bool {
        self.seconds() == other.seconds()
    }
}

impl Eq for Window {}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Minute => f.write_str("minute"),
            Window::Hour => f.write_str("hour"),
            Window::Day => f.write_str("day"),
            Window::Month => f.write_str("month"),
            Window::Seconds(seconds) => write!(f, "{seconds} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, Window};

    fn at(text: &str) -> Timestamp {
        Timestamp::from_rfc3339(text).unwrap()
    }

    #[test]
    fn times_are_written_as_the_library_writes_them() {
        // The library's first and last time in milliseconds.
        let (first, last) = (-377_705_023_201_000_i64, 253_402_207_200_000);
        let steps = (first..last).step_by(86_400_000 * 97 + 12_345_679);
        for millis in steps.chain([first, last, -1, 0, 999, -62_167_219_200_001]) {
            let expected = jiff::Timestamp::from_millisecond(millis).unwrap();
            let written = Timestamp::from_millis(millis).to_string();
            assert_eq!(written, format!("{expected:.3}"));
        }
        assert_eq!(Timestamp::from_millis(last + 1).to_string(), "253402207200001 ms");
    }

    #[test]
    fn windows_follow_the_utc_calendar() {
        let moment = at("2026-11-15T03:04:05.678Z");
        assert_eq!(Window::Minute.start(moment), at("2026-11-15T03:04:00Z"));
        assert_eq!(Window::Hour.start(moment), at("2026-11-15T03:00:00Z"));
        assert_eq!(Window::Day.start(moment), at("2026-11-15T00:00:00Z"));
        assert_eq!(Window::Seconds(7).start(moment).as_millis() % 7_000, 0);
        assert_eq!(Window::Minute.remaining_millis(moment), 54_322);
    }

    #[test]
    fn a_window_ends_at_the_start_of_the_next() {
        assert_eq!(Window::Minute.remaining_millis(at("2026-01-01T00:00:00Z")), 60_000);
        assert_eq!(Window::Minute.remaining_millis(at("2026-01-01T00:00:59.999Z")), 1);
        assert_eq!(Window::Day.start(at("1969-12-31T23:59:59Z")), at("1969-12-31T00:00:00Z"));
    }

    #[test]
    fn a_month_is_the_calendars_in_utc() {
        let check = |inside: &str, start: &str, end: &str| {
            assert_eq!(Window::Month.start(at(inside)), at(start), "{inside}");
            assert_eq!(Window::Month.end(at(inside)), at(end), "{inside}");
        };
        check("2026-11-15T03:04:05.678Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
        check("2026-12-31T23:59:59.999Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z");
        check("2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z");
        check("2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
        check("2100-02-28T12:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z");
        check("1969-12-31T23:59:59Z", "1969-12-01T00:00:00Z", "1970-01-01T00:00:00Z");
        assert_eq!(Window::Month.remaining_millis(at("2026-11-30T23:59:59Z")), 1_000);
        assert_ne!(Window::Month, Window::Seconds(super::LONGEST_WINDOW));
        assert_eq!(Window::Month, Window::Month);
    }

    #[test]
    fn every_time_has_a_month_even_beyond_the_calendar() {
        for millis in [i64::MIN, -400_000_000_000_000, 253_402_300_799_999, i64::MAX] {
            let moment = Timestamp::from_millis(millis);
            assert!(Window::Month.start(moment) <= moment, "{millis}");
            assert!(moment <= Window::Month.end(moment), "{millis}");
            assert!(Window::Month.remaining_millis(moment) >= 1, "{millis}");
        }
    }

    #[test]
    fn only_rfc_3339_times_are_accepted() {
        assert_eq!(at("2026-01-01T01:00:00+01:00"), at("2026-01-01T00:00:00Z"));
        for text in [
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00,5Z",
            "20260101T000000Z",
            "+002026-01-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00:00Z[UTC]",
            "noon",
            "",
        ] {
            assert_eq!(Timestamp::from_rfc3339(text), None, "{text}");
        }
    }
}
