//! Formats numbers for people.

use std::fmt::Display;

/// `1 tool`, `2 tools`.
pub fn count_noun(number: impl Display + Copy, noun: &str) -> String {
    let number = thousands(number);
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A whole number with thousands separators.
pub fn thousands(number: impl Display + Copy) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{count_noun, thousands};

    #[test]
    fn numbers_are_formatted_for_people() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(count_noun(0, "tool"), "0 tools");
        assert_eq!(count_noun(1, "tool"), "1 tool");
        assert_eq!(count_noun(22_729, "tool"), "22,729 tools");
    }
}
