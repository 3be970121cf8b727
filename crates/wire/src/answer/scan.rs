//! An incremental JSON scanner, which keeps only its parse state.

use smallvec::SmallVec;

use super::{AnswerError, decode_string, names::OpenNames};

/// The longest name, and the longest value that is examined.
const MOST_KEPT: usize = 64 << 10;

/// Receives the names and values of the outermost object and its `result`.
pub(super) trait Sink {
    /// Called for each name; returns whether its value is needed, if it is a scalar.
    fn key(&mut self, in_result: bool, name: &str) -> Result<bool, AnswerError>;
    /// Whether the object that starts now, in the outermost one, is the result.
    fn is_result(&self) -> bool;
    /// Called with a needed value.
    fn scalar(&mut self, in_result: bool, raw: &str) -> Result<(), AnswerError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// A value, or the end of an empty list.
    ValueOrEnd,
    Key,
    /// A name, or the end of an empty object.
    KeyOrEnd,
    Colon,
    /// A comma, or the end of the open container.
    CommaOrEnd,
    /// Only white space.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    None,
    /// In a string, which may be a name.
    String {
        is_key: bool,
    },
    /// After a backslash.
    Escape {
        is_key: bool,
    },
    /// In `\u`, with this many digits to come.
    Hex {
        is_key: bool,
        left: u8,
    },
    Number(Digits),
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
}

/// The state within a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

#[derive(Debug)]
pub(super) struct Scanner {
    depth: usize,
    /// The open containers; `true` for objects.
    open: SmallVec<[bool; 16]>,
    /// Whether the second container is the result.
    in_result: bool,
    /// The names of the open objects.
    names: OpenNames,
    expect: Expect,
    token: Token,
    /// The token's text so far, if it may be needed.
    kept: Vec<u8>,
    /// Whether the token's text is kept.
    keeps: bool,
    /// Whether the next value is needed.
    wanted: bool,
    /// Bytes of an incomplete character.
    partial: Vec<u8>,
    /// Bytes read before this call of `push`.
    read: u64,
}

impl Scanner {
    pub(super) fn new(depth: usize) -> Scanner {
        Scanner {
            depth,
            open: SmallVec::new(),
            in_result: false,
            names: OpenNames::default(),
            expect: Expect::Value,
            token: Token::None,
            kept: Vec::with_capacity(64),
            keeps: false,
            wanted: false,
            partial: Vec::new(),
            read: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<(), AnswerError> {
        self.utf8(bytes)?;
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            let place = self.read + (bytes.len() - rest.len()) as u64;
            rest = match self.token {
                Token::String { is_key } => self.string(rest, is_key, sink, place)?,
                Token::Number(Digits::Whole | Digits::Fraction | Digits::Power)
                    if byte.is_ascii_digit() =>
                {
                    self.digits(rest)?
                }
                _ => {
                    if self.byte(byte, sink).ok_or(AnswerError::Json(place))?? {
                        after
                    } else {
                        // This byte ended a number, so it is processed again.
                        continue;
                    }
                }
            };
        }
        self.read += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<(), AnswerError> {
        let is_whole =
            self.expect == Expect::Nothing && self.token == Token::None && self.partial.is_empty();
        if is_whole { Ok(()) } else { Err(AnswerError::Incomplete) }
    }

    /// Checks the encoding, also of characters that are split between chunks.
    fn utf8(&mut self, bytes: &[u8]) -> Result<(), AnswerError> {
        let mut bytes = bytes;
        while !self.partial.is_empty() {
            let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
            self.partial.push(*first);
            bytes = rest;
            match std::str::from_utf8(&self.partial) {
                Ok(_) => self.partial.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(AnswerError::Json(self.read)),
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_none() => {
                self.partial
                    .extend_from_slice(bytes.get(error.valid_up_to()..).unwrap_or_default());
                Ok(())
            }
            Err(error) => Err(AnswerError::Json(self.read + error.valid_up_to() as u64)),
        }
    }

    /// Scans a string, as far as the input goes.
    fn string<'b>(
        &mut self,
        bytes: &'b [u8],
        is_key: bool,
        sink: &mut impl Sink,
        place: u64,
    ) -> Result<&'b [u8], AnswerError> {
        let end = memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
        let (content, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
        if has_control(content) {
            return Err(AnswerError::Json(place));
        }
        self.keep(content)?;
        let Some((&byte, after)) = rest.split_first() else { return Ok(rest) };
        self.keep(&[byte])?;
        if byte == b'\\' {
            self.token = Token::Escape { is_key };
        } else {
            self.token = Token::None;
            self.string_ends(is_key, sink)?;
        }
        Ok(after)
    }

    fn string_ends(&mut self, is_key: bool, sink: &mut impl Sink) -> Result<(), AnswerError> {
        if is_key {
            self.expect = Expect::Colon;
            self.keeps = false;
            let name = decode_string(text(&self.kept)?).map_err(|_| AnswerError::Name)?;
            self.names.note(&name)?;
            self.wanted = self.is_watched() && sink.key(self.in_result, &name)?;
            Ok(())
        } else {
            self.value_ends(sink)
        }
    }

    /// Processes one byte outside of a string. It returns `false` if the byte must be processed
    /// again, and `None` if it is not allowed here.
    fn byte(&mut self, byte: u8, sink: &mut impl Sink) -> Option<Result<bool, AnswerError>> {
        match self.token {
            Token::None => self.structure(byte, sink),
            Token::String { .. } => None,
            Token::Escape { is_key } => {
                self.token = match byte {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                        Token::String { is_key }
                    }
                    b'u' => Token::Hex { is_key, left: 4 },
                    _ => return None,
                };
                Some(self.keep(&[byte]).map(|()| true))
            }
            Token::Hex { is_key, left } => {
                if !byte.is_ascii_hexdigit() {
                    return None;
                }
                self.token = match left {
                    1 => Token::String { is_key },
                    left => Token::Hex { is_key, left: left - 1 },
                };
                Some(self.keep(&[byte]).map(|()| true))
            }
            Token::Number(digits) => self.number(digits, byte, sink),
            Token::Word(rest) => self.word(rest, byte, sink),
        }
    }

    fn word(
        &mut self,
        rest: &'static [u8],
        byte: u8,
        sink: &mut impl Sink,
    ) -> Option<Result<bool, AnswerError>> {
        let (expected, rest) = rest.split_first()?;
        if byte != *expected {
            return None;
        }
        if let Err(error) = self.keep(&[byte]) {
            return Some(Err(error));
        }
        if rest.is_empty() {
            self.token = Token::None;
            return Some(self.value_ends(sink).map(|()| true));
        }
        self.token = Token::Word(rest);
        Some(Ok(true))
    }

    fn number(
        &mut self,
        digits: Digits,
        byte: u8,
        sink: &mut impl Sink,
    ) -> Option<Result<bool, AnswerError>> {
        let next = match (digits, byte) {
            (Digits::Minus, b'0') => Digits::Zero,
            (Digits::Minus, b'1'..=b'9') | (Digits::Whole, b'0'..=b'9') => Digits::Whole,
            (Digits::Zero | Digits::Whole, b'.') => Digits::Point,
            (Digits::Zero | Digits::Whole | Digits::Fraction, b'e' | b'E') => Digits::Exponent,
            (Digits::Point | Digits::Fraction, b'0'..=b'9') => Digits::Fraction,
            (Digits::Exponent, b'+' | b'-') => Digits::Sign,
            (Digits::Exponent | Digits::Sign | Digits::Power, b'0'..=b'9') => Digits::Power,
            (Digits::Zero | Digits::Whole | Digits::Fraction | Digits::Power, _) => {
                self.token = Token::None;
                return Some(self.value_ends(sink).map(|()| false));
            }
            _ => return None,
        };
        self.token = Token::Number(next);
        Some(self.keep(&[byte]).map(|()| true))
    }

    /// Takes all digits that follow in a number.
    fn digits<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], AnswerError> {
        let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
        let (digits, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
        self.keep(digits)?;
        Ok(rest)
    }

    fn structure(&mut self, byte: u8, sink: &mut impl Sink) -> Option<Result<bool, AnswerError>> {
        use Expect::{Colon, CommaOrEnd, Key, KeyOrEnd, Nothing, Value, ValueOrEnd};
        match (self.expect, byte) {
            (_, b' ' | b'\t' | b'\n' | b'\r') => {}
            (Value | ValueOrEnd, b'{' | b'[') => {
                return Some(self.begin(byte == b'{', sink).map(|()| true));
            }
            (Value | ValueOrEnd, _) if byte != b']' => return self.scalar(byte),
            (ValueOrEnd, b']') | (KeyOrEnd, b'}') => return Some(self.end(sink).map(|()| true)),
            (Key | KeyOrEnd, b'"') => {
                self.keep_from(byte, true);
                self.token = Token::String { is_key: true };
            }
            (Colon, b':') => self.expect = Value,
            (CommaOrEnd, b',') => {
                self.expect = if self.open.last() == Some(&true) { Key } else { Value };
            }
            (CommaOrEnd, b'}' | b']') if self.open.last() == Some(&(byte == b'}')) => {
                return Some(self.end(sink).map(|()| true));
            }
            (Nothing | Value | ValueOrEnd | Key | KeyOrEnd | Colon | CommaOrEnd, _) => return None,
        }
        Some(Ok(true))
    }

    /// Whether names and values here belong to the outermost object or the result.
    fn is_watched(&self) -> bool {
        self.open.len() == 1 || (self.open.len() == 2 && self.in_result)
    }

    fn scalar(&mut self, byte: u8) -> Option<Result<bool, AnswerError>> {
        // Only an object can be an answer.
        if self.open.is_empty() {
            return Some(Err(AnswerError::Envelope));
        }
        self.token = match byte {
            b'"' => Token::String { is_key: false },
            b'-' => Token::Number(Digits::Minus),
            b'0' => Token::Number(Digits::Zero),
            b'1'..=b'9' => Token::Number(Digits::Whole),
            b't' => Token::Word(b"rue"),
            b'f' => Token::Word(b"alse"),
            b'n' => Token::Word(b"ull"),
            _ => return None,
        };
        self.keep_from(byte, self.wanted && self.is_watched());
        Some(Ok(true))
    }

    fn begin(&mut self, is_object: bool, sink: &impl Sink) -> Result<(), AnswerError> {
        // A needed value must be a scalar.
        if (self.open.is_empty() && !is_object) || (self.wanted && self.is_watched()) {
            return Err(AnswerError::Envelope);
        }
        if self.open.len() >= self.depth {
            return Err(AnswerError::TooDeep(self.depth));
        }
        if self.open.len() == 1 {
            self.in_result = is_object && sink.is_result();
        }
        self.wanted = false;
        self.open.push(is_object);
        if is_object {
            self.names.open();
        }
        self.expect = if is_object { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
        Ok(())
    }

    fn end(&mut self, sink: &mut impl Sink) -> Result<(), AnswerError> {
        if self.open.pop() == Some(true) {
            self.names.close()?;
        }
        if self.open.len() == 1 {
            self.in_result = false;
        }
        self.keeps = false;
        self.value_ends(sink)
    }

    fn value_ends(&mut self, sink: &mut impl Sink) -> Result<(), AnswerError> {
        self.expect = if self.open.is_empty() { Expect::Nothing } else { Expect::CommaOrEnd };
        self.wanted = false;
        if self.keeps_no_more() {
            sink.scalar(self.in_result && self.open.len() == 2, text(&self.kept)?)?;
        }
        Ok(())
    }

    /// Starts a token, and keeps its text if it is needed.
    fn keep_from(&mut self, byte: u8, is_wanted: bool) {
        self.keeps = is_wanted;
        self.kept.clear();
        self.kept.push(byte);
    }

    /// Ends the token; returns whether its text was kept.
    fn keeps_no_more(&mut self) -> bool {
        std::mem::take(&mut self.keeps)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), AnswerError> {
        if !self.keeps {
            return Ok(());
        }
        if self.kept.len() + bytes.len() > MOST_KEPT {
            return Err(AnswerError::LongName(MOST_KEPT));
        }
        self.kept.extend_from_slice(bytes);
        Ok(())
    }
}

/// Whether the bytes contain a control character, which must be escaped in a string.
fn has_control(bytes: &[u8]) -> bool {
    /// For each byte of a word: the first code that is not a control character, and the bit that a
    /// subtraction sets for smaller codes.
    const FIRST: u64 = u64::from_ne_bytes([b' '; 8]);
    const BORROWED: u64 = u64::from_ne_bytes([0x80; 8]);
    // Eight bytes at a time, written by hand so that it does not depend on auto-vectorisation.
    let (words, rest) = bytes.as_chunks();
    let found = words
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .fold(0, |found, word| found | (word.wrapping_sub(FIRST) & !word));
    found & BORROWED != 0 || rest.iter().any(|byte| *byte < b' ')
}

fn text(raw: &[u8]) -> Result<&str, AnswerError> {
    std::str::from_utf8(raw).map_err(|_| AnswerError::Envelope)
}
