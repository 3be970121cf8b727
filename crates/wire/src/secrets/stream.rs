//! Removes secrets from bytes that arrive in chunks. Only bytes that may be the beginning
//! of a secret are held back until the next chunk.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use aho_corasick::automaton::StateID;

use super::{MARK, NUMBER_MARK, matcher::Matcher};

/// See the module.
pub struct MaskedStream {
    matcher: Arc<Matcher>,
    state: StateID,
    /// Bytes that may be the beginning of a secret.
    held: Vec<u8>,
    /// Whether a mark was written directly before them, which also stands for a secret that
    /// overlaps it.
    follows_mark: bool,
    /// Counts the marks in an answer, in which numbers must stay numbers.
    masked: Option<Arc<AtomicU64>>,
}

impl fmt::Debug for MaskedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaskedStream(…)")
    }
}

/// A part of the text that is secret.
struct Covered {
    range: Range<usize>,
    is_number: bool,
}

impl MaskedStream {
    pub(super) fn new(matcher: Arc<Matcher>, masked: Option<Arc<AtomicU64>>) -> MaskedStream {
        let state = matcher.start();
        MaskedStream { matcher, state, held: Vec::new(), follows_mark: false, masked }
    }

    /// Takes a chunk, and returns the bytes that are certain by now; `None` if they are
    /// exactly this chunk.
    pub fn push(&mut self, chunk: &[u8]) -> Option<Vec<u8>> {
        if self.held.is_empty() {
            let covered = self.search(chunk, 0);
            let undecided = self.matcher.depth(self.state);
            if covered.is_empty() && undecided == 0 {
                self.follows_mark &= chunk.is_empty();
                return None;
            }
            return Some(self.take(chunk, &covered, undecided));
        }
        let before = self.held.len();
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(chunk);
        let covered = self.search(&text, before);
        let undecided = self.matcher.depth(self.state);
        Some(self.take(&text, &covered, undecided))
    }

    /// Whether no bytes are held back.
    pub fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }

    /// Ends the stream: what was held back is no secret.
    pub fn finish(&mut self) -> Vec<u8> {
        self.state = self.matcher.start();
        std::mem::take(&mut self.held)
    }

    /// Reads a text from this place on, and returns what is secret of it, in order and
    /// apart.
    fn search(&mut self, text: &[u8], from: usize) -> Vec<Covered> {
        let mut covered: Vec<Covered> = Vec::new();
        let mut at = from;
        while at < text.len() {
            if self.state == self.matcher.start() {
                at = self.matcher.skip(text, at);
            }
            let Some(byte) = text.get(at) else { break };
            self.state = self.matcher.next(self.state, *byte);
            at += 1;
            let before = text.get(..at).unwrap_or_default();
            if let Some(found) = self.matcher.find_end(self.state, before) {
                // It may have begun within a secret that is already masked.
                let mut start = at.saturating_sub(found.length);
                let mut is_number = found.is_number;
                while let Some(last) = covered.pop_if(|last| last.range.end >= start) {
                    start = start.min(last.range.start);
                    is_number &= last.is_number;
                }
                covered.push(Covered { range: start..at, is_number });
            }
        }
        covered
    }

    /// The decided part of a text with its secrets masked; the rest is held back.
    fn take(&mut self, text: &[u8], covered: &[Covered], undecided: usize) -> Vec<u8> {
        let decided = text.len().saturating_sub(undecided);
        // A secret is removed at once, even if a second one may overlap it.
        let decided = covered.last().map_or(decided, |last| last.range.end.max(decided));
        let mut out = Vec::with_capacity(decided);
        let (mut at, mut marks) = (0, 0);
        for Covered { range, is_number } in covered {
            if range.start > at || !self.follows_mark {
                out.extend_from_slice(text.get(at..range.start).unwrap_or_default());
                let stays_number = *is_number && self.masked.is_some();
                let mark = if stays_number { NUMBER_MARK } else { MARK };
                out.extend_from_slice(mark.as_bytes());
                marks += 1;
            }
            self.follows_mark = true;
            at = range.end;
        }
        if decided > at {
            self.follows_mark = false;
        }
        out.extend_from_slice(text.get(at..decided).unwrap_or_default());
        self.held.extend_from_slice(text.get(decided..).unwrap_or_default());
        if let Some(masked) = self.masked.as_ref().filter(|_| marks > 0) {
            masked.fetch_add(marks, Ordering::Relaxed);
        }
        out
    }
}
