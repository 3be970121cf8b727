//! Server-sent events: cutting a stream into blocks, and reading a block.
//!
//! A block is kept byte for byte, so that what is not changed can be passed on
//! as it came. Lines may end in LF, CR or CRLF, also when a chunk ends between
//! the two; a reader that minds only one of them could be shown another event
//! than its client sees.

/// One block of a stream: an event, or comments alone, up to and including the
/// blank line that ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    bytes: Vec<u8>,
    /// Only the first block of a stream may begin with a byte order mark that
    /// says nothing.
    is_first: bool,
}

/// What a block says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The event's type; `message` unless given.
    pub name: Option<String>,
    /// The data lines, joined by line feeds; none in a block of comments.
    pub data: Option<String>,
    pub id: Option<String>,
    pub retry: Option<u64>,
}

/// Why a stream cannot be followed further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
    #[error("an event is not valid UTF-8")]
    Utf8,
}

/// Where in a block the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No line of it has had anything in it yet.
    BeforeContent,
    InLine,
    /// After a line with something in it: another line end ends the block.
    AtLineStart,
}

/// Cuts a stream into blocks.
#[derive(Debug)]
pub struct Splitter {
    most: usize,
    /// The block being read.
    open: Vec<u8>,
    place: Place,
    /// Whether the last byte was a CR, to which an LF may still belong.
    after_cr: bool,
    /// Whether no block has been handed over yet.
    is_first: bool,
}

impl Splitter {
    /// A splitter that refuses blocks of more than `most` bytes.
    pub fn new(most: usize) -> Splitter {
        Splitter {
            most,
            open: Vec::new(),
            place: Place::BeforeContent,
            after_cr: false,
            is_first: true,
        }
    }

    /// Reads the next bytes of the stream and hands over the blocks they complete.
    ///
    /// What follows the last blank line is kept for the next call; if the stream
    /// ends there, it was no event.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(Block)) -> Result<(), SseError> {
        for &byte in chunk {
            if self.open.len() >= self.most {
                return Err(SseError::TooLong(self.most));
            }
            let ends_crlf = self.after_cr && byte == b'\n';
            self.after_cr = byte == b'\r';
            self.open.push(byte);
            if ends_crlf {
                // The line ended with the CR before; this LF goes to whatever
                // block is open now, where it says nothing.
                continue;
            }
            let ends_line = matches!(byte, b'\n' | b'\r');
            self.place = match self.place {
                _ if !ends_line => Place::InLine,
                Place::InLine => Place::AtLineStart,
                // Blank lines before any content belong to the block that follows.
                Place::BeforeContent => Place::BeforeContent,
                Place::AtLineStart => {
                    let bytes = std::mem::take(&mut self.open);
                    each(Block { bytes, is_first: self.is_first });
                    self.is_first = false;
                    Place::BeforeContent
                }
            };
        }
        Ok(())
    }
}

impl Block {
    /// The block as it came.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the bytes back without copying them.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What the block says.
    pub fn read(&self) -> Result<Event, SseError> {
        let text = std::str::from_utf8(&self.bytes).map_err(|_| SseError::Utf8)?;
        let mark = if self.is_first { "\u{feff}" } else { "" };
        let text = text.strip_prefix(mark).unwrap_or(text);
        let mut event = Event::default();
        for line in lines(text) {
            // A comment has an empty field name.
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            event.take(field, value.strip_prefix(' ').unwrap_or(value));
        }
        Ok(event)
    }
}

impl Event {
    fn take(&mut self, field: &str, value: &str) {
        match field {
            "event" => self.name = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok();
            }
            _ => {}
        }
    }
}

/// The lines of a text, each ended by CRLF, LF or CR.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find(['\n', '\r'])?;
        let (line, after) = rest.split_at_checked(end)?;
        rest = after.strip_prefix("\r\n").or_else(|| after.get(1..))?;
        Some(line)
    })
}

#[cfg(test)]
mod tests;
