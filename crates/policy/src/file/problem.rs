//! Errors in a policy's text, with line and column.

use serde::Serialize;

use super::node::Span;

/// One problem in a policy's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// How to fix it, if known.
    pub hint: Option<String>,
    /// The byte range that it refers to.
    #[serde(skip)]
    pub bytes: std::ops::Range<usize>,
}

/// Collects problems.
#[derive(Debug, Default)]
pub struct Problems {
    found: Vec<(Span, String, Option<String>)>,
}

impl Problems {
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn add(&mut self, span: Span, message: String) {
        self.found.push((span, message, None));
    }

    pub fn add_with_hint(&mut self, span: Span, message: String, hint: String) {
        self.found.push((span, message, Some(hint)));
    }

    /// The problems by position, with lines and columns.
    pub fn into_problems(mut self, text: &[u8]) -> Vec<Problem> {
        self.found.sort_by_key(|(span, ..)| span.start);
        // One pass over the text, however many problems there are.
        let mut place = Position::START;
        self.found
            .into_iter()
            .map(|(span, message, hint)| {
                place.advance(text, span.start);
                let Position { line, column, .. } = place;
                Problem { line, column, message, hint, bytes: span.start..span.end }
            })
            .collect()
    }
}

impl Problem {
    /// A problem at a byte offset of `text`.
    pub fn at(text: &[u8], offset: usize, message: String) -> Problem {
        let (line, column) = place(text, offset);
        Problem { line, column, message, hint: None, bytes: offset..offset }
    }
}

/// Line and column, both from 1, of a byte offset.
pub fn place(text: &[u8], offset: usize) -> (usize, usize) {
    let mut place = Position::START;
    place.advance(text, offset);
    (place.line, place.column)
}

/// A position in a text.
#[derive(Debug, Clone, Copy)]
struct Position {
    offset: usize,
    line: usize,
    column: usize,
}

impl Position {
    const START: Position = Position { offset: 0, line: 1, column: 1 };

    /// Advances to a later offset.
    fn advance(&mut self, text: &[u8], offset: usize) {
        for byte in text.get(self.offset..offset.min(text.len())).unwrap_or_default() {
            match byte {
                b'\n' => (self.line, self.column) = (self.line + 1, 1),
                // Continuation bytes of a character do not count.
                0x80..0xc0 => {}
                _ => self.column += 1,
            }
        }
        self.offset = offset;
    }
}
