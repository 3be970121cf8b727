//! Iterates over the elements of a JSON list in a document that is too large to be read at once.
//!
//! Parses only as much JSON as is needed to find the end of an element; each element
//! is then parsed strictly by itself.

use std::io::{self, BufRead};

/// A document that is read element by element.
#[derive(Debug)]
pub(super) struct Elements<R> {
    input: R,
    /// Bytes consumed so far.
    pub(super) taken: u64,
}

/// One element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) text: Vec<u8>,
    /// Whether it is longer than the stored part.
    pub(super) is_cut: bool,
}

impl<R: BufRead> Elements<R> {
    /// Finds the first element of the document's list: the document itself, or its member of this
    /// name. `None` if there is no such list.
    pub(super) fn of_list(input: R, member: &str) -> io::Result<Option<Elements<R>>> {
        let mut elements = Elements { input, taken: 0 };
        match elements.next_sign()? {
            Some(b'[') => Ok(Some(elements)),
            Some(b'{') => Ok(elements.seek(member)?.then_some(elements)),
            _ => Ok(None),
        }
    }

    /// Inside an object, enters the list that is its member of this name.
    fn seek(&mut self, member: &str) -> io::Result<bool> {
        loop {
            let Some(b'"') = self.next_sign()? else { return Ok(false) };
            let key = self.rest(b'"', 1 << 10)?;
            let is_it =
                key.text.get(1..key.text.len().saturating_sub(1)) == Some(member.as_bytes());
            let (Some(b':'), Some(first)) = (self.next_sign()?, self.next_sign()?) else {
                return Ok(false);
            };
            if is_it && first == b'[' {
                return Ok(true);
            }
            self.rest(first, 0)?;
        }
    }

    /// The next element, of which at most `most` bytes are stored.
    pub(super) fn next(&mut self, most: usize) -> io::Result<Option<Element>> {
        match self.next_sign()? {
            None | Some(b']' | b'}') => Ok(None),
            Some(first) => self.rest(first, most).map(Some),
        }
    }

    /// The next byte that is neither white space nor a comma.
    fn next_sign(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.take()? {
                Some(b' ' | b'\t' | b'\r' | b'\n' | b',') => {}
                other => return Ok(other),
            }
        }
    }

    fn take(&mut self) -> io::Result<Option<u8>> {
        let byte = self.input.fill_buf()?.first().copied();
        if byte.is_some() {
            self.input.consume(1);
            self.taken += 1;
        }
        Ok(byte)
    }

    /// Reads the rest of a value that starts with `first`.
    fn rest(&mut self, first: u8, most: usize) -> io::Result<Element> {
        let mut element = Element { text: Vec::new(), is_cut: false };
        let mut state = State::default();
        let mut ended = state.see(first);
        element.keep(&[first], most);
        while !ended {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let mut used = 0;
            for byte in buffer {
                if state.is_scalar() && matches!(byte, b',' | b']' | b'}' | b'\n' | b' ') {
                    ended = true;
                    break;
                }
                used += 1;
                if state.see(*byte) {
                    ended = true;
                    break;
                }
            }
            element.keep(buffer.get(..used).unwrap_or_default(), most);
            self.input.consume(used);
            self.taken += used as u64;
        }
        Ok(element)
    }
}

impl Element {
    fn keep(&mut self, bytes: &[u8], most: usize) {
        let room = most.saturating_sub(self.text.len()).min(bytes.len());
        self.is_cut |= room < bytes.len();
        self.text.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

/// The scanner's state within a value.
#[derive(Debug, Default)]
struct State {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl State {
    /// Processes one byte; returns whether the value ends with it.
    fn see(&mut self, byte: u8) -> bool {
        if self.in_string {
            if self.is_escaped {
                self.is_escaped = false;
            } else if byte == b'\\' {
                self.is_escaped = true;
            } else if byte == b'"' {
                self.in_string = false;
                return self.depth == 0;
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }

    /// Whether the value is a number or a word, which ends before the next delimiter.
    fn is_scalar(&self) -> bool {
        self.depth == 0 && !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::Elements;

    fn elements(text: &str, most: usize) -> Option<Vec<(String, bool)>> {
        // A buffer of 3 bytes, so that every case occurs at a buffer's end.
        let input = BufReader::with_capacity(3, text.as_bytes());
        let mut elements = Elements::of_list(input, "servers").unwrap()?;
        let mut found = Vec::new();
        while let Some(element) = elements.next(most).unwrap() {
            found.push((String::from_utf8(element.text).unwrap(), element.is_cut));
        }
        Some(found)
    }

    #[test]
    fn elements_are_found_one_by_one() {
        let expected = [r#"{"a":"]\"}"}"#, "[1,[2]]", "3", r#""x""#, "true"];
        let expected: Vec<_> = expected.map(|text| (text.to_owned(), false)).to_vec();
        let list = format!(
            "[ {} ]",
            expected.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(" , ")
        );
        assert_eq!(elements(&list, 100), Some(expected.clone()));
        let inside =
            format!(r#"{{"metadata": {{"servers": [9]}}, "n": 1, "servers" : {list}, "x": 1}}"#);
        assert_eq!(elements(&inside, 100), Some(expected));
    }

    #[test]
    fn a_document_without_a_list_has_no_elements() {
        for text in ["", "{}", "3", r#"{"servers": 3}"#, r#"{"servers""#, r#"{"a": [1]}"#] {
            assert_eq!(elements(text, 100), None, "{text}");
        }
    }

    #[test]
    fn long_elements_are_truncated_and_the_next_is_found() {
        let found = elements(r#"["aaaaaaaaaa", "b"]"#, 4).unwrap();
        assert_eq!(found, [("\"aaa".to_owned(), true), ("\"b\"".to_owned(), false)]);
    }
}
