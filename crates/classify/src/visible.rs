//! Text from anywhere, made harmless to show.

use std::fmt::Write as _;

use crate::finding::is_unseen;

/// `text` with what could steer a terminal, or fake a line, made visible.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "{}", character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Control characters, those that reorder text on a screen, and those that take
/// no place on it, so that nobody would see them.
pub fn steers(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || is_unseen(character)
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_steers_a_terminal_is_shown_instead() {
        assert_eq!(visible("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\u{a}c");
        assert_eq!(visible("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(visible("a\u{200b}b\u{e0041}"), "a\\u{200b}b\\u{e0041}");
        assert_eq!(visible("größe"), "größe");
    }
}
