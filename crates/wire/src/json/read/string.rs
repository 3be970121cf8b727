//! Parses strings: finds the closing quote, and decodes escapes.

use super::{
    super::{bounds::LoneSurrogates, refusal::Reason},
    Reader, Refusal, Shape, narrow,
};

/// The role of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Key,
    Value,
}

impl Reader<'_> {
    /// Parses the string whose opening quote is next.
    pub(super) fn string(&mut self, role: Role) -> Result<Shape, Refusal> {
        let opening = self.at;
        self.at += 1;
        self.at += plain_prefix(self.rest());
        if self.peek() == Some(b'"') {
            if self.at - opening - 1 > self.bounds.string {
                return self.long_string(opening);
            }
            self.at += 1;
            return Ok(Shape::Plain);
        }
        self.read_escaped(opening, role)
    }

    /// Decodes the string that starts at `opening`; its first escape is next.
    fn read_escaped(&mut self, opening: usize, role: Role) -> Result<Shape, Refusal> {
        let from = self.decoded.len();
        let mut copied = opening + 1;
        loop {
            let run = self.text.get(copied..self.at).unwrap_or_default();
            if self.decoded.len() - from + run.len() > self.bounds.string {
                return self.long_string(opening);
            }
            self.decoded.push_str(run);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    let to = narrow(self.decoded.len());
                    return Ok(Shape::Decoded { from: narrow(from), to });
                }
                Some(b'\\') => {
                    let character = self.escape(role)?;
                    self.decoded.push(character);
                }
                Some(_) => return self.refuse(Reason::ControlCharacter),
                None => return self.refuse(Reason::End),
            }
            copied = self.at;
            self.at += plain_prefix(self.rest());
        }
    }

    /// Parses one escape; its backslash is next.
    fn escape(&mut self, role: Role) -> Result<char, Refusal> {
        let start = self.at;
        self.at += 1;
        let character = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape(start, role);
            }
            None => return self.refuse(Reason::End),
            Some(_) => return self.refuse_at(start, Reason::Escape),
        };
        self.at += 1;
        Ok(character)
    }

    fn unicode_escape(&mut self, start: usize, role: Role) -> Result<char, Refusal> {
        let high = self.four_hex(start)?;
        if !(0xd800..0xe000).contains(&high) {
            return char::from_u32(high).map_or_else(|| self.refuse(Reason::Escape), Ok);
        }
        if high >= 0xdc00 || !self.rest().starts_with(b"\\u") {
            return self.lone_surrogate(start, role);
        }
        let after_high = self.at;
        self.at += 2;
        let low = self.four_hex(start)?;
        if !(0xdc00..0xe000).contains(&low) {
            // The second escape stands for itself.
            self.at = after_high;
            return self.lone_surrogate(start, role);
        }
        let point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        char::from_u32(point).map_or_else(|| self.refuse_at(start, Reason::LoneSurrogate), Ok)
    }

    fn lone_surrogate(&self, start: usize, role: Role) -> Result<char, Refusal> {
        match (self.bounds.lone_surrogates, role) {
            (LoneSurrogates::Replace, Role::Value) => Ok(char::REPLACEMENT_CHARACTER),
            (LoneSurrogates::Refuse, _) | (_, Role::Key) => {
                self.refuse_at(start, Reason::LoneSurrogate)
            }
        }
    }

    fn four_hex(&mut self, start: usize) -> Result<u32, Refusal> {
        let mut value = 0;
        for _ in 0..4 {
            match self.peek().map(|digit| char::from(digit).to_digit(16)) {
                Some(Some(digit)) => value = value * 16 + digit,
                Some(None) => return self.refuse_at(start, Reason::Escape),
                None => return self.refuse(Reason::End),
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn long_string<T>(&self, opening: usize) -> Result<T, Refusal> {
        self.refuse_at(opening, Reason::LongString(self.bounds.string))
    }

    #[expect(clippy::unused_self, reason = "reads like `refuse`, beside which it stands")]
    fn refuse_at<T>(&self, offset: usize, reason: Reason) -> Result<T, Refusal> {
        Err(Refusal { offset, reason })
    }
}

/// The number of bytes before a quote, a backslash or a control character.
///
/// Eight bytes at a time: each of the three tests sets the top bit of the lowest matching byte; the
/// bytes above it do not matter.
pub(in crate::json) fn plain_prefix(bytes: &[u8]) -> usize {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let (chunks, tail) = bytes.as_chunks::<8>();
    for (position, chunk) in chunks.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (LOW * u64::from(b'"'));
        let backslash = word ^ (LOW * u64::from(b'\\'));
        let special = (quote.wrapping_sub(LOW) & !quote)
            | (backslash.wrapping_sub(LOW) & !backslash)
            | (word.wrapping_sub(LOW * 0x20) & !word);
        let special = special & HIGH;
        if special != 0 {
            return position * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let ends = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
    bytes.len() - tail.len() + tail.iter().position(ends).unwrap_or(tail.len())
}
