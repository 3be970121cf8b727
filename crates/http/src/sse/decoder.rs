//! Incremental decoder of an event stream.

use memchr::memchr2;

use super::Event;

/// The longest event id in bytes, because clients send it back in a header.
const LONGEST_ID: usize = 4096;

/// Why a stream cannot be decoded any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
    #[error("an event is not valid UTF-8")]
    Utf8,
}

/// Decodes a stream of events chunk by chunk.
#[derive(Debug)]
pub struct Decoder {
    /// The largest event, in bytes.
    limit: usize,
    /// The start of an incomplete line.
    line: Vec<u8>,
    event: Event,
    /// Whether a field of the event has been read, so that a blank line ends it.
    has_fields: bool,
    /// Bytes of the event before the current line.
    length: usize,
    /// Whether the last byte was a CR, which may be the start of a CRLF.
    is_after_cr: bool,
    /// Only the first line of a stream may begin with a byte order mark.
    is_first_line: bool,
}

impl Decoder {
    /// A decoder that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Decoder {
        Decoder {
            limit,
            line: Vec::new(),
            event: Event::default(),
            has_fields: false,
            length: 0,
            is_after_cr: false,
            is_first_line: true,
        }
    }

    /// Decodes the next bytes of the stream, and passes on each event as soon as the blank line
    /// after it has started. A comment between two events is passed on as an event without fields.
    ///
    /// Bytes after the last blank line are kept for the next call. If the stream ends there, they
    /// are not an event.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(Event)) -> Result<(), SseError> {
        let mut rest = chunk;
        if std::mem::take(&mut self.is_after_cr) {
            if rest.is_empty() {
                self.is_after_cr = true;
            }
            // The second half of a CRLF is skipped.
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (line, after) = rest.split_at(end);
            self.check_length(line.len())?;
            if self.line.is_empty() {
                self.take_line(line, &mut each)?;
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.take_line(&whole, &mut each)?;
            }
            let is_cr = after.first() == Some(&b'\r');
            rest = match after {
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => after,
            };
            self.is_after_cr = is_cr && after.len() == 1;
        }
        self.check_length(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    fn check_length(&self, more: usize) -> Result<(), SseError> {
        let length = self.length + self.line.len() + more;
        if length > self.limit { Err(SseError::TooLong(self.limit)) } else { Ok(()) }
    }

    fn take_line(&mut self, line: &[u8], each: &mut impl FnMut(Event)) -> Result<(), SseError> {
        let mark: &[u8] =
            if std::mem::take(&mut self.is_first_line) { b"\xef\xbb\xbf" } else { b"" };
        let line = line.strip_prefix(mark).unwrap_or(line);
        if line.is_empty() {
            self.length = 0;
            if std::mem::take(&mut self.has_fields) {
                each(std::mem::take(&mut self.event));
            }
            return Ok(());
        }
        if line.first() == Some(&b':') && !self.has_fields {
            self.length = 0;
            each(Event::default());
            return Ok(());
        }
        self.length += line.len() + 1;
        let colon = memchr::memchr(b':', line);
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if matches!(field, b"event" | b"data" | b"id" | b"retry") {
            self.has_fields = true;
            let value = std::str::from_utf8(value).map_err(|_| SseError::Utf8)?;
            self.take_field(field, value);
        }
        Ok(())
    }

    fn take_field(&mut self, field: &[u8], value: &str) {
        match (field, &mut self.event) {
            (b"event", event) => {
                event.name = Some(value.to_owned()).filter(|name| !name.is_empty());
            }
            (b"data", Event { data: Some(data), .. }) => {
                data.push('\n');
                data.push_str(value);
            }
            (b"data", event) => event.data = Some(value.to_owned()),
            // An id that could not be sent back unchanged is ignored.
            (b"id", event) if value.len() <= LONGEST_ID && super::is_printable(value) => {
                event.id = Some(value.to_owned());
            }
            (b"retry", event) if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                event.retry = value.parse().ok();
            }
            _ => {}
        }
    }
}
