//! The decoder of event streams: it agrees with the standard wherever the stream is cut, keeps its
//! limit exactly, and an event in canonical form is read as one event by everyone.

use serde_json::Value;
use sluice_http::sse::{Decoder, Event, SseError};

use crate::cuts::cut;

const LONGEST_ID: usize = 4096;
/// Limits that are out of reach, and so small that short inputs meet them.
const LIMITS: [usize; 2] = [1 << 20, 40];
/// The line ends of Python's `splitlines`.
const LINE_ENDS: [char; 10] =
    ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

/// The events before the end of a stream, and the fault that ended it.
type Decoded = (Vec<Event>, Result<(), SseError>);

/// Takes the input for a stream.
pub fn check(data: &[u8]) {
    for limit in LIMITS {
        let expected = by_the_standard(data, limit);
        assert_eq!(decode([data], limit), expected, "whole, {limit}");
        assert_eq!(decode(data.chunks(1), limit), expected, "byte by byte, {limit}");
        assert_eq!(decode(cut(data), limit), expected, "in pieces, {limit}");
        for event in expected.0 {
            let texts = [&event.name, &event.data, &event.id];
            let length: usize = texts.into_iter().flatten().map(String::len).sum();
            assert!(length <= limit, "{event:?}");
            check_canonical_form(&event);
        }
    }
}

fn decode<'d>(pieces: impl IntoIterator<Item = &'d [u8]>, limit: usize) -> Decoded {
    let (mut decoder, mut events) = (Decoder::new(limit), Vec::new());
    let end =
        pieces.into_iter().try_for_each(|piece| decoder.push(piece, |event| events.push(event)));
    (events, end)
}

/// The events of a whole stream, line by line.
fn by_the_standard(stream: &[u8], limit: usize) -> Decoded {
    let (mut events, mut open, mut size) = (Vec::new(), None::<Event>, 0);
    let (lines, unfinished) = lines(stream);
    for (index, whole) in lines.into_iter().enumerate() {
        if size + whole.len() > limit {
            return (events, Err(SseError::TooLong(limit)));
        }
        let mark = if index == 0 { "\u{feff}" } else { "" };
        let line = whole.strip_prefix(mark.as_bytes()).unwrap_or(whole);
        if line.is_empty() {
            events.extend(open.take());
            size = 0;
        } else if line[0] == b':' && open.is_none() {
            events.push(Event::default());
            size = 0;
        } else {
            size += line.len() + 1;
            if take_field(line, &mut open).is_none() {
                return (events, Err(SseError::Utf8));
            }
        }
    }
    let is_too_long = size + unfinished.len() > limit;
    (events, if is_too_long { Err(SseError::TooLong(limit)) } else { Ok(()) })
}

/// The lines of a stream, and the rest after the last line end.
fn lines(stream: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut lines, mut rest) = (Vec::new(), stream);
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        lines.push(&rest[..end]);
        let length = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[end + length..];
    }
    (lines, rest)
}

/// Adds a line to the event; `None` if a known field is not UTF-8.
fn take_field(line: &[u8], open: &mut Option<Event>) -> Option<()> {
    let mut parts = line.splitn(2, |byte| *byte == b':');
    let (field, value) = (parts.next()?, parts.next().unwrap_or_default());
    if !["event", "data", "id", "retry"].iter().any(|known| known.as_bytes() == field) {
        return Some(());
    }
    let event = open.get_or_insert_default();
    let value = str::from_utf8(value).ok()?;
    let value = value.strip_prefix(' ').unwrap_or(value);
    match field {
        b"event" => event.name = (!value.is_empty()).then(|| value.to_owned()),
        b"data" => {
            let lines: Vec<&str> = event.data.as_deref().into_iter().chain([value]).collect();
            event.data = Some(lines.join("\n"));
        }
        b"id" if value.len() <= LONGEST_ID && is_printable(value) => {
            event.id = Some(value.to_owned());
        }
        b"retry" if value.chars().all(|c| c.is_ascii_digit()) => event.retry = value.parse().ok(),
        _ => {}
    }
    Some(())
}

fn is_printable(text: &str) -> bool {
    text.chars().all(|c| c == ' ' || c.is_ascii_graphic())
}

/// The canonical form reads back as the event, except for characters that could be misread.
fn check_canonical_form(event: &Event) {
    let escaped = |data: &String| {
        [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")]
            .iter()
            .fold(data.clone(), |data, (separator, escape)| data.replace(*separator, escape))
    };
    let expected = Event {
        name: event.name.clone().filter(|name| is_printable(name)),
        data: event.data.as_ref().map(escaped),
        ..event.clone()
    };
    let text = event.encode();
    assert_eq!(decode([&text[..]], usize::MAX), (vec![expected.clone()], Ok(())));
    assert_eq!(expected.encode(), text, "the canonical form of {event:?} changes");
    let Some(data) = &event.data else { return };
    let Ok(value) = serde_json::from_str::<Value>(data) else { return };
    let again = serde_json::from_str(&expected.data.unwrap_or_default());
    assert_eq!(again.ok(), Some(value), "{data:?}");
    let text = str::from_utf8(&text).expect("a text");
    let lines = text.strip_suffix("\n\n").expect("a blank line at the end").split(LINE_ENDS);
    for line in lines {
        let fields = ["event: ", "id: ", "retry: ", "data: "];
        assert!(fields.iter().any(|field| line.starts_with(field)), "{line:?} of {text:?}");
    }
}
