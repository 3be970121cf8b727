//! Fits text to a screen, by display width.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::visible;
use sluice_config::Environment;

/// What is written for, where nothing says otherwise.
const USUAL: Screen = Screen { width: 80, height: 50 };
/// Wider lines are not read well.
const WIDEST: usize = 160;
const NARROWEST: usize = 40;

/// How much is seen at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Screen {
    /// The terminal, else what `COLUMNS` says.
    pub(crate) fn of(environment: &Environment) -> Screen {
        let screen = if let Some((width, height)) = terminal_size::terminal_size() {
            Screen { width: width.0.into(), height: height.0.into() }
        } else {
            let columns = environment.setting("COLUMNS").and_then(|columns| columns.to_str());
            let width = columns.and_then(|columns| columns.parse().ok());
            Screen { width: width.unwrap_or(USUAL.width), ..USUAL }
        };
        Screen { width: screen.width.clamp(NARROWEST, WIDEST), ..screen }
    }
}

/// The places that a text takes.
pub(crate) fn wide(text: &str) -> usize {
    text.width()
}

/// A text that takes at most `most` places; an ellipsis stands for what is cut.
pub(crate) fn fit(text: &str, most: usize) -> String {
    if wide(text) <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(1);
    let mut kept = String::new();
    for character in text.chars() {
        let Some(fewer) = left.checked_sub(character.width().unwrap_or(0)) else { break };
        left = fewer;
        kept.push(character);
    }
    kept.truncate(kept.trim_end().len());
    kept + "…"
}

/// The same for a text from anywhere, made harmless.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    fit(&visible(text), most)
}

/// A text as lines of at most `most` places, parted between words; a word that is
/// longer than a line is parted too.
pub(crate) fn wrap_lines(text: &str, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && wide(&line) + 1 + wide(word) > most {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            if !line.is_empty() && wide(&line) + character.width().unwrap_or(0) > most {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{fit, shorten, wide, wrap_lines};

    #[test]
    fn texts_are_cut_by_the_places_they_take() {
        assert_eq!(fit("größe", 5), "größe");
        assert_eq!(fit("größer", 5), "größ…");
        assert_eq!(fit("建立一則筆記", 7), "建立一…");
        assert_eq!(fit("ab cd", 4), "ab…");
        assert_eq!(wide("📝a"), 3);
        assert_eq!(fit("abc", 0), "…");
        assert_eq!(shorten("a\u{1b}bcd", 8), "a\\u{1b}…");
    }

    #[test]
    fn lines_are_parted_between_words() {
        assert_eq!(wrap_lines("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap_lines("a bbbbbbb c", 3), ["a", "bbb", "bbb", "b c"]);
        assert_eq!(wrap_lines("建立一則", 5), ["建立", "一則"]);
        assert!(wrap_lines(" ", 4).is_empty());
    }
}
