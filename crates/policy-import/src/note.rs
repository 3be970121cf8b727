//! Notes: rules of an imported policy that have no exact equivalent, or changed slightly.

use serde::Serialize;
use sluice_policy::file::{node::Span, problem::place};

/// A rule that has no exact equivalent, or whose meaning has changed slightly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Line in the older policy, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The note's text.
    pub message: String,
    /// Whether a rule was left out, so that other calls are allowed or denied than before.
    pub lost: bool,
}

/// Collects notes.
#[derive(Debug, Default)]
pub(super) struct Notes {
    taken: Vec<(Span, String, Equivalence)>,
    said: Vec<&'static str>,
}

/// Whether the imported policy still does what the note is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Equivalence {
    Kept,
    Lost,
}

impl Notes {
    /// Adds a note.
    pub(super) fn know(&mut self, span: Span, message: String) {
        self.taken.push((span, message, Equivalence::Kept));
    }

    /// Adds a note about the whole policy, once, at its first occurrence.
    pub(super) fn know_once(&mut self, span: Span, message: &'static str) {
        if !self.said.contains(&message) {
            self.said.push(message);
            self.know(span, message.into());
        }
    }

    /// Adds a note that something was left out.
    pub(super) fn leave_out(&mut self, span: Span, message: String) {
        self.taken.push((span, message, Equivalence::Lost));
    }

    /// The notes by position, with lines and columns.
    pub(super) fn into_notes(mut self, text: &[u8]) -> Vec<Note> {
        self.taken.sort_by_key(|(span, ..)| span.start);
        self.taken
            .into_iter()
            .map(|(span, message, equivalence)| {
                let (line, column) = place(text, span.start);
                Note { line, column, message, lost: equivalence == Equivalence::Lost }
            })
            .collect()
    }
}
