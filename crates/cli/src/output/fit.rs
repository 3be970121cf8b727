//! Fits text to a screen, by display width.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::visible;
use sluice_config::Environment;

/// The default screen, if the real one is unknown.
const USUAL: Screen = Screen { width: 80, height: 50 };
/// Longer lines are hard to read.
const WIDEST: usize = 160;
const NARROWEST: usize = 40;

/// The size of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Screen {
    /// The size of the terminal, else the width in `COLUMNS`.
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

/// The display width of a text, in columns.
pub(crate) fn wide(text: &str) -> usize {
    text.width()
}

/// Cuts a text to at most `most` columns; an ellipsis marks the cut.
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

/// Escapes and cuts an untrusted text.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    fit(&visible(text), most)
}

/// Wraps a text to lines of at most `most` columns, between words; a word that is longer than a
/// line is split.
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
    fn texts_are_cut_by_display_width() {
        assert_eq!(fit("größe", 5), "größe");
        assert_eq!(fit("größer", 5), "größ…");
        assert_eq!(fit("建立一則筆記", 7), "建立一…");
        assert_eq!(fit("ab cd", 4), "ab…");
        assert_eq!(wide("📝a"), 3);
        assert_eq!(fit("abc", 0), "…");
        assert_eq!(shorten("a\u{1b}bcd", 8), "a\\u{1b}…");
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrap_lines("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap_lines("a bbbbbbb c", 3), ["a", "bbb", "bbb", "b c"]);
        assert_eq!(wrap_lines("建立一則", 5), ["建立", "一則"]);
        assert!(wrap_lines(" ", 4).is_empty());
    }
}
