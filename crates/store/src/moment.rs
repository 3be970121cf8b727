//! Moments as records write them: RFC 3339 in UTC with milliseconds, always as
//! long, so that texts sort as times do. Written by hand because each call
//! writes two.

use sluice_policy::Timestamp;

const DAY: i64 = 86_400_000;
/// The first and the last moment that four digits of a year can name.
const RANGE: (i64, i64) = (-62_167_219_200_000, 253_402_300_799_999);

/// Appends a moment's text, such as `2026-11-15T06:38:28.123Z`.
pub(crate) fn push(text: &mut String, at: Timestamp) {
    let millis = at.as_millis().clamp(RANGE.0, RANGE.1);
    let (year, month, day) = date(millis.div_euclid(DAY));
    let rest = millis.rem_euclid(DAY);
    let [century, year, month, day] = [year / 100, year % 100, month, day].map(pair);
    let [hour, minute, second, hundredth] =
        [rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest / 10 % 100].map(pair);
    let [_, last] = pair(rest % 10);
    // Gathered first, because a string takes them faster together.
    let written = [
        century[0],
        century[1],
        year[0],
        year[1],
        b'-',
        month[0],
        month[1],
        b'-',
        day[0],
        day[1],
        b'T',
        hour[0],
        hour[1],
        b':',
        minute[0],
        minute[1],
        b':',
        second[0],
        second[1],
        b'.',
        hundredth[0],
        hundredth[1],
        last,
        b'Z',
    ];
    text.push_str(str::from_utf8(&written).unwrap_or_default());
}

/// Two digits.
fn pair(number: i64) -> [u8; 2] {
    let digit = |number: i64| b'0' + u8::try_from(number % 10).unwrap_or(0);
    [digit(number / 10), digit(number)]
}

/// Year, month and day of so many days after the epoch, by Howard Hinnant's
/// method: years begin in March, so that the odd day comes last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use sluice_policy::Timestamp;

    fn text(at: Timestamp) -> String {
        let mut text = String::new();
        super::push(&mut text, at);
        text
    }

    #[test]
    fn moments_are_what_another_reader_takes_them_for() {
        let step = 86_400_000 * 13 + 12_345_678;
        for millis in (-62_167_219_200_000..253_402_300_799_999).step_by(step) {
            let at = Timestamp::from_millis(millis);
            assert_eq!(Timestamp::from_rfc3339(&text(at)), Some(at), "{}", text(at));
        }
        assert_eq!(text(Timestamp::from_millis(1_794_724_708_123)), "2026-11-15T06:38:28.123Z");
        assert_eq!(text(Timestamp::from_millis(951_782_400_000)), "2000-02-29T00:00:00.000Z");
    }

    #[test]
    fn what_has_no_year_of_four_digits_is_brought_into_range() {
        assert_eq!(text(Timestamp::from_millis(i64::MIN)), "0000-01-01T00:00:00.000Z");
        assert_eq!(text(Timestamp::from_millis(i64::MAX)), "9999-12-31T23:59:59.999Z");
    }
}
