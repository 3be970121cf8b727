//! The JSON parser: one pass, without recursion.
//!
//! Limits are checked at each token, before anything is stored for it. Strings and duplicate keys
//! have their own modules.

mod keys;
mod string;

pub(crate) use keys::digest;
pub(super) use string::plain_prefix;

use super::{
    bounds::Bounds,
    refusal::{Reason, Refusal},
    tape::{Document, Node, Shape},
};
use keys::OpenKeys;
use string::Role;

/// How duplicate keys in an object are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatedKeys {
    Refuse,
    Keep,
}

/// Parses `bytes` as one JSON value.
pub(crate) fn document(
    bytes: Vec<u8>,
    bounds: &Bounds,
    repeated: RepeatedKeys,
) -> Result<Document, Refusal> {
    // Offsets have 32 bits, to keep nodes small.
    let most = bounds.bytes.min(u32::MAX as usize - 1);
    if bytes.len() > most {
        return Err(Refusal { offset: most, reason: Reason::TooLong(most) });
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(Refusal { offset: 0, reason: Reason::ByteOrderMark });
    }
    let text = String::from_utf8(bytes).map_err(|error| Refusal {
        offset: error.utf8_error().valid_up_to(),
        reason: Reason::Utf8,
    })?;
    let mut reader = Reader {
        text: &text,
        at: 0,
        bounds,
        repeated,
        values: 0,
        nodes: Vec::with_capacity((text.len() / 8).clamp(8, 4096)),
        decoded: String::new(),
        open: Vec::with_capacity(8),
        keys: OpenKeys::new(),
    };
    reader.read()?;
    let (nodes, decoded) = (reader.nodes, reader.decoded);
    Ok(Document { text, decoded, nodes })
}

/// A list or object that is not closed yet.
struct Open {
    /// Its node.
    index: u32,
    is_object: bool,
    /// Members parsed so far.
    count: u32,
    /// The number of keys on the stack before it.
    keys_before: usize,
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    bounds: &'t Bounds,
    repeated: RepeatedKeys,
    values: usize,
    nodes: Vec<Node>,
    decoded: String,
    open: Vec<Open>,
    keys: OpenKeys,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Refusal> {
        loop {
            // A value starts here. A container with content is only opened; its first value is
            // parsed in the next iteration.
            if self.value()? {
                continue;
            }
            loop {
                let Some(open) = self.open.last() else {
                    return self.end();
                };
                let is_object = open.is_object;
                match self.next_significant() {
                    Some(b',') => {
                        self.at += 1;
                        if is_object {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => self.close()?,
                    Some(b']') if !is_object => self.close()?,
                    _ if is_object => return self.refuse_unexpected("`,` or `}`"),
                    _ => return self.refuse_unexpected("`,` or `]`"),
                }
            }
        }
    }

    /// Parses one value; returns true if it opened a container that is not empty.
    fn value(&mut self) -> Result<bool, Refusal> {
        let first = self.next_significant();
        self.count_value()?;
        let start = self.at;
        match first {
            Some(b'"') => {
                let shape = self.string(Role::Value)?;
                self.push(shape, start);
            }
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                self.push(Shape::Number, start);
            }
            Some(b't') => self.literal("true", Shape::True)?,
            Some(b'f') => self.literal("false", Shape::False)?,
            Some(b'n') => self.literal("null", Shape::Null)?,
            _ => return self.refuse_unexpected("a value").map(|()| false),
        }
        Ok(false)
    }

    fn count_value(&mut self) -> Result<(), Refusal> {
        if self.values >= self.bounds.nodes {
            return self.refuse(Reason::TooManyNodes(self.bounds.nodes));
        }
        self.values += 1;
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        if open.count as usize >= self.bounds.members {
            return self.refuse(Reason::TooManyMembers(self.bounds.members));
        }
        open.count += 1;
        Ok(())
    }

    fn open(&mut self, is_object: bool) -> Result<bool, Refusal> {
        if self.open.len() >= self.bounds.depth {
            return self.refuse(Reason::TooDeep(self.bounds.depth));
        }
        let index = self.next_index();
        self.open.push(Open { index, is_object, count: 0, keys_before: self.keys.len() });
        let start = self.at;
        self.at += 1;
        // The shape is set when the container closes.
        self.push(Shape::Null, start);
        match (self.next_significant(), is_object) {
            (Some(b'}'), true) | (Some(b']'), false) => {
                self.close()?;
                Ok(false)
            }
            (_, true) => {
                self.key()?;
                Ok(true)
            }
            (_, false) => Ok(true),
        }
    }

    fn close(&mut self) -> Result<(), Refusal> {
        self.at += 1;
        let Some(open) = self.open.pop() else { return Ok(()) };
        if open.is_object && self.repeated == RepeatedKeys::Refuse {
            self.refuse_late_repeats(&open)?;
        }
        self.keys.truncate(open.keys_before);
        let (after, end, count) = (self.next_index(), self.end_offset(), open.count);
        if let Some(node) = self.nodes.get_mut(open.index as usize) {
            node.end = end;
            node.shape = if open.is_object {
                Shape::Object { after, count }
            } else {
                Shape::List { after, count }
            };
        }
        Ok(())
    }

    /// Parses a key and its colon.
    fn key(&mut self) -> Result<(), Refusal> {
        if self.next_significant() != Some(b'"') {
            return self.refuse_unexpected("a key in double quotes");
        }
        let start = self.at;
        let shape = self.string(Role::Key)?;
        self.push(shape, start);
        if self.repeated == RepeatedKeys::Refuse {
            self.refuse_early_repeat(start)?;
        }
        if self.next_significant() != Some(b':') {
            return self.refuse_unexpected("`:`");
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &'static str, shape: Shape) -> Result<(), Refusal> {
        let start = self.at;
        if !self.rest().starts_with(word.as_bytes()) {
            return self.refuse_unexpected("a value");
        }
        self.at += word.len();
        self.push(shape, start);
        Ok(())
    }

    fn number(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.refuse(Reason::LeadingZero);
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        if self.at - start > self.bounds.number {
            self.at = start;
            return self.refuse(Reason::LongNumber(self.bounds.number));
        }
        Ok(())
    }

    /// Parses one or more digits.
    fn digits(&mut self) -> Result<(), Refusal> {
        let found = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if found == 0 {
            return self.refuse(Reason::Number);
        }
        self.at += found;
        Ok(())
    }

    /// Checks that only white space follows the value.
    fn end(&mut self) -> Result<(), Refusal> {
        match self.next_significant() {
            None => Ok(()),
            Some(b'/') => self.refuse(Reason::Comment),
            Some(_) => self.refuse(Reason::Trailing),
        }
    }

    fn push(&mut self, shape: Shape, start: usize) {
        let end = self.end_offset();
        self.nodes.push(Node { shape, start: narrow(start), end });
    }

    fn next_index(&self) -> u32 {
        narrow(self.nodes.len())
    }

    fn end_offset(&self) -> u32 {
        narrow(self.at)
    }

    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and returns the next byte without consuming it.
    fn next_significant(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other,
            }
        }
    }

    fn refuse_unexpected(&self, wanted: &'static str) -> Result<(), Refusal> {
        self.refuse(match self.peek() {
            None => Reason::End,
            Some(b'/') => Reason::Comment,
            Some(_) => Reason::Expected(wanted),
        })
    }

    fn refuse<T>(&self, reason: Reason) -> Result<T, Refusal> {
        Err(Refusal { offset: self.at, reason })
    }
}

/// INVARIANT: a text is shorter than `u32::MAX`, and has no more nodes than bytes.
fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
