//! Errors in a policy's text, with line and column.

use serde::Serialize;

use super::node::Span;

/// One thing wrong with a policy's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it, if known.
    pub hint: Option<String>,
    /// The bytes of the text it is about.
    #[serde(skip)]
    pub bytes: std::ops::Range<usize>,
}

/// Problems as they are found.
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

    /// The problems in order of place, with lines and columns.
    pub fn placed_in(mut self, text: &[u8]) -> Vec<Problem> {
        self.found.sort_by_key(|(span, ..)| span.start);
        // One walk over the text, however many problems there are.
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
    /// A problem at a byte of `text`.
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

/// How far a text has been read.
#[derive(Debug, Clone, Copy)]
struct Position {
    offset: usize,
    line: usize,
    column: usize,
}

impl Position {
    const START: Position = Position { offset: 0, line: 1, column: 1 };

    /// Goes on to a later offset.
    fn advance(&mut self, text: &[u8], offset: usize) {
        for byte in text.get(self.offset..offset.min(text.len())).unwrap_or_default() {
            match byte {
                b'\n' => (self.line, self.column) = (self.line + 1, 1),
                // The later bytes of a character do not count.
                0x80..0xc0 => {}
                _ => self.column += 1,
            }
        }
        self.offset = offset;
    }
}
