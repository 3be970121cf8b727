//! Server-sent events: decoding a stream, and encoding one event.
//!
//! Events are decoded by the standard (lines end in LF, CR or CRLF) and encoded in one
//! canonical form: lines end in LF, and only the four known fields are written. Parsers
//! disagree about line ends, so an event that is forwarded unchanged could show a client
//! other messages than the gateway has checked.

mod decoder;

use bytes::Bytes;
use memchr::memchr2_iter;

pub use decoder::{Decoder, SseError};

/// One event. An event without any field stands for the comments that keep a stream alive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The event's type; `None` means `message`.
    pub name: Option<String>,
    /// The data lines, joined by line feeds.
    pub data: Option<String>,
    pub id: Option<String>,
    /// The reconnection delay of a client, in milliseconds.
    pub retry: Option<u64>,
}

impl Event {
    /// A message event of the 2024-11-05 transport, which names its events.
    pub fn message(data: impl Into<String>) -> Event {
        Event { name: Some("message".into()), data: Some(data.into()), ..Event::default() }
    }

    /// The data of a message event; `None` for other types.
    pub fn into_message(self) -> Option<String> {
        let is_message = self.is_message();
        self.data.filter(|data| is_message && !data.is_empty())
    }

    /// Whether this is a message event.
    pub fn is_message(&self) -> bool {
        self.name.as_deref().is_none_or(|name| name == "message")
    }

    /// Encodes the event in canonical form. The data must be JSON or empty: characters that some
    /// parsers treat as line ends are written as JSON escapes.
    pub fn encode(&self) -> Bytes {
        encode(self, self.data.as_deref())
    }

    /// The same event with other data.
    pub fn encode_with(&self, data: &str) -> Bytes {
        encode(self, Some(data))
    }
}

/// Encodes a message as an event.
pub fn encode_message(message: &str) -> Bytes {
    Event::default().encode_with(message)
}

fn encode(event: &Event, data: Option<&str>) -> Bytes {
    let mut text = String::with_capacity(data.map_or(0, str::len) + 64);
    if let Some(name) = event.name.as_deref().filter(|name| is_printable(name)) {
        text.extend(["event: ", name, "\n"]);
    }
    if let Some(id) = event.id.as_deref().filter(|id| is_printable(id)) {
        text.extend(["id: ", id, "\n"]);
    }
    if let Some(retry) = event.retry {
        text.extend(["retry: ", &retry.to_string(), "\n"]);
    }
    if let Some(data) = data {
        write_data(&mut text, data);
    }
    if text.is_empty() {
        text.push_str(":\n");
    }
    text.push('\n');
    text.into()
}

/// Whether a text contains no character that some parser treats as a line end, and can be sent in a
/// header.
fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Writes one `data` line for each line of the data.
fn write_data(text: &mut String, data: &str) {
    for line in data.split(['\n', '\r']) {
        text.push_str("data: ");
        let mut rest = line;
        while let Some((before, separator, after)) = split_at_separator(rest) {
            text.extend([before, separator]);
            rest = after;
        }
        text.extend([rest, "\n"]);
    }
}

/// Characters beyond ASCII that some parsers treat as line ends, and their escapes.
const SEPARATORS: [(char, &str); 3] =
    [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];

/// The text before the first separator, the separator as a JSON escape, and the
/// text after it.
fn split_at_separator(text: &str) -> Option<(&str, &'static str, &str)> {
    // The first bytes of the separators in UTF-8.
    memchr2_iter(0xc2, 0xe2, text.as_bytes()).find_map(|place| {
        let (before, after) = text.split_at_checked(place)?;
        let strip = |(separator, escape)| Some((escape, after.strip_prefix(separator)?));
        let (escape, rest) = SEPARATORS.into_iter().find_map(strip)?;
        Some((before, escape, rest))
    })
}

#[cfg(test)]
mod tests;
