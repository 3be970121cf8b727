//! Pages for a terminal of 80 columns: headings, and text that is wrapped.

use std::fmt::Write as _;

use anstyle::Style;
use sluice_classify::Risk;

use crate::output::{BAD, FAINT, GOOD, HELD, STRONG, visible};

/// Characters of a line.
const WIDTH: usize = 80;

/// A page that grows from top to bottom.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// A line in bold.
    pub(super) fn title(&mut self, text: &str) -> &mut Page {
        let _ = writeln!(self.text, "{STRONG}{}{STRONG:#}", visible(text));
        self
    }

    /// A heading, after an empty line.
    pub(super) fn heading(&mut self, text: &str) -> &mut Page {
        let _ = writeln!(self.text, "\n{FAINT}{text}{FAINT:#}");
        self
    }

    /// Text from anywhere, wrapped.
    pub(super) fn text(&mut self, text: &str) -> &mut Page {
        self.wrapped("", text, Style::new())
    }

    /// The same as one of several points.
    pub(super) fn point(&mut self, text: &str) -> &mut Page {
        self.wrapped("- ", text, Style::new())
    }

    /// What belongs to the point before it.
    pub(super) fn detail(&mut self, text: &str) -> &mut Page {
        self.wrapped("  ", text, Style::new())
    }

    /// The same, less visible.
    pub(super) fn aside(&mut self, text: &str) -> &mut Page {
        self.wrapped("", text, FAINT)
    }

    fn wrapped(&mut self, mark: &str, text: &str, style: Style) -> &mut Page {
        let indent = "  ".len() + mark.len();
        for (place, line) in wrap(&visible(text), WIDTH - indent).into_iter().enumerate() {
            let before = if place == 0 { mark } else { "  ".get(..mark.len()).unwrap_or_default() };
            let _ = writeln!(self.text, "  {before}{style}{line}{style:#}");
        }
        self
    }

    /// Lines that are made already, each two columns in.
    pub(super) fn lines(&mut self, lines: &str) -> &mut Page {
        for line in lines.lines() {
            let _ = writeln!(self.text, "  {line}");
        }
        self
    }

    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// Parts a text at its blanks; a word that is longer than a line is cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        if length > 0 && length + 1 + rest.len() > width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        while rest.len() > width {
            let after = rest.split_off(width);
            lines.push(rest.iter().collect());
            rest = after;
        }
        length += rest.len();
        line.extend(rest);
    }
    if length > 0 {
        lines.push(line);
    }
    lines
}

/// The colour of a risk.
pub(super) fn of_risk(risk: Risk) -> Style {
    match risk {
        Risk::Critical => BAD,
        Risk::High => HELD,
        Risk::Medium => Style::new(),
        Risk::Low => GOOD,
    }
}

/// The beginning of a text that must fit a column.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let shown = visible(text);
    if shown.chars().count() <= most {
        return shown;
    }
    shown.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A number with what is counted.
pub(super) fn counted(number: u64, what: &str) -> String {
    let mut digits = number.to_string();
    let mut place = digits.len();
    while place > 3 {
        place -= 3;
        digits.insert(place, ',');
    }
    if number == 1 { format!("1 {what}") } else { format!("{digits} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::{Page, counted, shortened, wrap};

    #[test]
    fn text_is_wrapped_at_blanks_and_long_words_are_cut() {
        assert_eq!(wrap("aa bb  cc\n d", 5), ["aa bb", "cc d"]);
        assert_eq!(wrap("a bbbbbbb c", 3), ["a", "bbb", "bbb", "b c"]);
        assert!(wrap("  ", 5).is_empty());
    }

    #[test]
    fn no_line_is_wider_than_a_terminal_nor_steers_it() {
        let mut page = Page::default();
        page.title("t\u{1b}").point(&"word ".repeat(100)).text(&"x".repeat(300));
        let text = page.finish();
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
        assert!(plain.starts_with("t\\u{1b}\n"));
    }

    #[test]
    fn counts_are_read_easily() {
        assert_eq!(counted(1, "tool"), "1 tool");
        assert_eq!(counted(22_729, "tool"), "22,729 tools");
        assert_eq!(counted(1_000_000, "tool"), "1,000,000 tools");
        assert_eq!(shortened("abcdef", 4), "abc…");
    }
}
