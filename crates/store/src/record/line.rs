//! A record's text while it waits to be written. What differs from one record to
//! the next is marked in it, so that what many have in common is stored once.

use std::fmt::Write as _;

use sluice_policy::Timestamp;
use sluice_wire::json;

use crate::{digest::push_hex, id::Id, moment};

/// Bytes that nearly every record fits into, hash and all.
const ROOM: usize = 1024;
/// Bytes of a line that is kept to be written on again.
const MOST_REUSED: usize = 4 * ROOM;

/// Something in a text that is this record's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    Id(Id),
    Moment(Timestamp),
    Digest([u8; 32]),
    Number(u64),
    /// Any JSON text: as it stands there.
    Text,
}

/// Where in a text something of its own stands.
#[derive(Debug, Clone, Copy)]
struct Mark {
    start: usize,
    end: usize,
    own: Own,
}

/// A record's text, without its closing brace.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    text: String,
    marks: Vec<Mark>,
    at: Timestamp,
}

impl Default for Line {
    fn default() -> Line {
        let (text, marks) = Default::default();
        Line { text, marks, at: Timestamp::from_millis(0) }
    }
}

impl Line {
    /// Empties the line, for another record.
    pub(super) fn begin(&mut self, at: Timestamp) {
        self.text.clear();
        self.text.reserve(ROOM);
        self.marks.clear();
        self.at = at;
    }

    /// What the next line can be written on, unless it is too long to be kept.
    pub(crate) fn into_blank(self) -> Option<Line> {
        (self.text.capacity() <= MOST_REUSED).then_some(self)
    }

    /// When what it tells has happened.
    pub(crate) fn at(&self) -> Timestamp {
        self.at
    }

    /// Shows the text to somebody who may add to it for the time being.
    pub(crate) fn lend<T>(&mut self, show: impl FnOnce(&mut String) -> T) -> T {
        let length = self.text.len();
        let shown = show(&mut self.text);
        self.text.truncate(length);
        shown
    }

    /// The parts of the text that other records have too: each with what follows it,
    /// but for the last.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&str, Option<Own>)> {
        let mut start = 0;
        let marks = self.marks.iter().map(move |mark| {
            let part = self.text.get(start..mark.start).unwrap_or_default();
            start = mark.end;
            (part, Some(mark.own))
        });
        let end = self.marks.last().map_or(0, |mark| mark.end);
        marks.chain([(self.text.get(end..).unwrap_or_default(), None)])
    }

    /// What stands where its own things are, each with its text.
    pub(crate) fn own(&self) -> impl Iterator<Item = (Own, &str)> {
        self.marks
            .iter()
            .map(|mark| (mark.own, self.text.get(mark.start..mark.end).unwrap_or_default()))
    }

    /// Adds JSON text that other records have too.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds a JSON string that other records have too.
    pub(super) fn string(&mut self, text: &str) {
        push_string(&mut self.text, text);
    }

    pub(super) fn id(&mut self, id: Id) {
        self.mark(Own::Id(id), |text| id.push(text));
    }

    pub(super) fn moment(&mut self, at: Timestamp) {
        self.mark(Own::Moment(at), |text| moment::push(text, at));
    }

    pub(super) fn digest(&mut self, digest: &[u8; 32]) {
        self.mark(Own::Digest(*digest), |text| push_hex(text, digest));
    }

    pub(super) fn number(&mut self, number: u64) {
        self.mark(Own::Number(number), |text| push_number(text, number));
    }

    /// Adds JSON text that is this record's own.
    pub(super) fn varying(&mut self, write: impl FnOnce(&mut String)) {
        self.mark(Own::Text, write);
    }

    fn mark(&mut self, own: Own, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        self.marks.push(Mark { start, end: self.text.len(), own });
    }
}

pub(super) fn push_string(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = json::write_string(out, text);
}

pub(crate) fn push_number(out: &mut String, number: u64) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{number}");
}
