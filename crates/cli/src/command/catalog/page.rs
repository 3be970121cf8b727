//! Pages for a terminal of 80 columns: headings, and text that is wrapped.

use std::fmt::Write as _;

use anstyle::Style;
use sluice_classify::Risk;

use crate::output::{BAD, FAINT, GOOD, HELD, STRONG, visible, wrap_lines};

/// Columns of a line.
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

    /// Untrusted text, wrapped.
    pub(super) fn text(&mut self, text: &str) -> &mut Page {
        self.wrap_lines("", text, Style::new())
    }

    /// Untrusted text as a list item, wrapped.
    pub(super) fn point(&mut self, text: &str) -> &mut Page {
        self.wrap_lines("- ", text, Style::new())
    }

    /// A detail of the preceding list item.
    pub(super) fn detail(&mut self, text: &str) -> &mut Page {
        self.wrap_lines("  ", text, Style::new())
    }

    /// Untrusted text in a faint style, wrapped.
    pub(super) fn aside(&mut self, text: &str) -> &mut Page {
        self.wrap_lines("", text, FAINT)
    }

    fn wrap_lines(&mut self, mark: &str, text: &str, style: Style) -> &mut Page {
        let indent = "  ".len() + mark.len();
        for (place, line) in wrap_lines(&visible(text), WIDTH - indent).into_iter().enumerate() {
            let before = if place == 0 { mark } else { "  ".get(..mark.len()).unwrap_or_default() };
            let _ = writeln!(self.text, "  {before}{style}{line}{style:#}");
        }
        self
    }

    /// Lines that are already formatted, indented by two columns.
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

/// The colour of a risk.
pub(super) fn of_risk(risk: Risk) -> Style {
    match risk {
        Risk::Critical => BAD,
        Risk::High => HELD,
        Risk::Medium => Style::new(),
        Risk::Low => GOOD,
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn lines_fit_the_terminal_and_hold_no_control_characters() {
        let mut page = Page::default();
        page.title("t\u{1b}").point(&"word ".repeat(100)).text(&"x".repeat(300));
        let text = page.finish();
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
        assert!(plain.starts_with("t\\u{1b}\n"));
    }
}
