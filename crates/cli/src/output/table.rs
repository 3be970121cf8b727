//! Tables: columns are as wide as their content, and never narrower than before.

use anstyle::Style;

use super::{FAINT, visible, wide};

/// One cell. The constructor escapes its text.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell with untrusted text.
    pub(crate) fn new(text: &str) -> Cell {
        Cell { text: visible(text), style: Style::new() }
    }

    pub(crate) fn with_style(text: &str, style: Style) -> Cell {
        Cell { style, ..Cell::new(text) }
    }

    /// A cell for a text that may be missing.
    pub(crate) fn maybe(text: Option<&str>) -> Cell {
        match text {
            Some(text) => Cell::new(text),
            None => Cell::with_style("-", FAINT),
        }
    }

    fn width(&self) -> usize {
        wide(&self.text)
    }
}

/// The columns of a table, which may be printed in several parts.
#[derive(Debug)]
pub(crate) struct Columns<const N: usize> {
    widths: [usize; N],
}

impl<const N: usize> Columns<N> {
    pub(crate) fn new() -> Columns<N> {
        Columns { widths: [0; N] }
    }

    /// Formats rows as lines. Columns grow with their content and never shrink.
    pub(crate) fn lines(&mut self, rows: &[[Cell; N]]) -> String {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        rows.iter().map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &[Cell; N]) -> String {
        let mut line = String::new();
        // Padding is written only before the next cell, so that no line ends in blanks.
        let mut blanks = 0;
        for (width, cell) in self.widths.iter().zip(row) {
            if cell.text.is_empty() {
                blanks += width + 2;
                continue;
            }
            let Cell { text, style } = cell;
            line.extend(std::iter::repeat_n(' ', blanks));
            line.push_str(&style.render().to_string());
            line.push_str(text);
            line.push_str(&style.render_reset().to_string());
            blanks = width.saturating_sub(cell.width()) + 2;
        }
        line.push('\n');
        line
    }
}

/// A whole table, with its head.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[Cell; N]]) -> String {
    let head = head.map(|title| Cell::with_style(title, FAINT));
    let all: Vec<_> = std::iter::once(head).chain(rows.iter().cloned()).collect();
    Columns::new().lines(&all)
}

#[cfg(test)]
mod tests {
    use anstyle::Style;

    use super::{Cell, Columns};

    #[test]
    fn columns_line_up_and_lines_do_not_end_in_blanks() {
        let row = |one: &str, two: &str, three: &str| [one, two, three].map(Cell::new);
        let mut columns = Columns::new();
        let text = columns.lines(&[row("größe", "b", "c"), row("a", "", "c"), row("a", "b", "")]);
        assert_eq!(text, "größe  b  c\na         c\na      b\n");
        // Later rows line up with earlier ones.
        assert_eq!(columns.lines(&[row("x", "y", "z")]), "x      y  z\n");
        // Some characters are two columns wide.
        assert_eq!(columns.lines(&[row("筆記", "y", "z")]), "筆記   y  z\n");
    }

    #[test]
    fn cells_escape_control_characters() {
        let mut columns = Columns::new();
        let cells = [Cell::with_style("a\nb", Style::new().bold())];
        assert_eq!(columns.lines(&[cells]), "\u{1b}[1ma\\u{a}b\u{1b}[0m\n");
    }
}
