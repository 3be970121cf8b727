//! Every line ending, split at every byte.

use proptest::prelude::*;

use super::{Decoder, Event, SseError};

/// The events of a stream that arrives in these chunks.
fn decode(chunks: &[&[u8]]) -> Vec<Event> {
    let mut decoder = Decoder::new(1 << 20);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(chunk, |event| events.push(event)).unwrap();
    }
    events
}

fn data(stream: &str) -> Vec<Option<String>> {
    decode(&[stream.as_bytes()]).into_iter().map(|event| event.data).collect()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[test]
fn all_three_line_ends_end_lines() {
    for stream in
        ["data: a\n\ndata: b\n\n", "data: a\r\rdata: b\r\r", "data: a\r\n\r\ndata: b\r\n\r\n"]
    {
        assert_eq!(data(stream), some(&["a", "b"]), "{stream:?}");
    }
    assert_eq!(data("data: a\rdata: b\r\n\n"), some(&["a\nb"]));
    // A hidden second event: CR CR ends the first one.
    assert_eq!(data("data: a\r\rdata: b\n\n"), some(&["a", "b"]));
}

#[test]
fn fields_are_read_as_the_standard_has_them() {
    let read = |text: &str| decode(&[text.as_bytes()]).remove(0);
    let event = read(
        "event: endpoint\nid: 7\nretry: 250\ndata:one\ndata:  two\ndata\n: note\nother: x\n\n",
    );
    let expected = Event {
        name: Some("endpoint".into()),
        data: Some("one\n two\n".into()),
        id: Some("7".into()),
        retry: Some(250),
    };
    assert_eq!(event, expected);
    assert_eq!(read(": keep-alive\n"), Event::default());
    assert_eq!(read("id: a\0b\nretry: 1s\n\n"), Event::default());
    assert_eq!(read(&format!("id: {}\n\n", "7".repeat(4097))), Event::default());
    assert_eq!(read("\u{feff}data: a\n\n").data, Some("a".into()));
    // Only at the very beginning is a byte order mark nothing.
    assert_eq!(data("data: a\n\n\u{feff}data: b\n\n"), some(&["a"]));
}

#[test]
fn an_event_without_its_blank_line_is_none() {
    assert_eq!(data("data: a\n\ndata: b\ndata: c"), some(&["a"]));
    let whole = decode(&[b"data: a\n\ndata: b\ndata: c", b"d\n", b"\r"]);
    assert_eq!(whole[1].data.as_deref(), Some("b\ncd"));
}

#[test]
fn long_events_and_wrong_bytes_are_refused() {
    let mut decoder = Decoder::new(10);
    assert_eq!(decoder.push(b"data: 1\n\n", drop), Ok(()));
    assert_eq!(decoder.push(b"data: 12345\n\n", drop), Err(SseError::TooLong(10)));
    for piece in ["data: 1\n", "other\n", "x"] {
        let mut decoder = Decoder::new(100);
        let pushed: Result<(), _> = (0..101).try_for_each(|_| decoder.push(piece.as_bytes(), drop));
        assert_eq!(pushed, Err(SseError::TooLong(100)), "{piece:?}");
    }
    assert_eq!(Decoder::new(100).push(b"data: \xff\n", drop), Err(SseError::Utf8));
}

#[test]
fn an_event_is_written_in_one_form() {
    let check = |event: &Event, expected: &str| assert_eq!(event.encode(), expected);
    check(&Event::default(), ":\n\n");
    check(&Event::message("{}"), "event: message\ndata: {}\n\n");
    let full =
        Event { name: None, data: Some("1\n2".into()), id: Some("7".into()), retry: Some(5) };
    check(&full, "id: 7\nretry: 5\ndata: 1\ndata: 2\n\n");
    check(&Event { data: Some(String::new()), ..Event::default() }, "data: \n\n");
    let lines =
        Event { name: Some("a\u{2028}b".into()), id: Some("\0".into()), ..Event::default() };
    check(&lines, ":\n\n");
    let separators = "\"\u{2028}é…\u{85}â\u{2029}\"";
    check(
        &Event { data: Some(separators.into()), ..Event::default() },
        "data: \"\\u2028é…\\u0085â\\u2029\"\n\n",
    );
}

/// The events of a stream, read line by line as the standard describes it.
fn by_the_standard(stream: &str) -> Vec<Event> {
    let unified = stream.replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut open) = (Vec::new(), None::<Event>);
    for line in unified.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "" if line.is_empty() => events.extend(open.take()),
            "" if open.is_none() => events.push(Event::default()),
            // An id that could not be sent back is left out.
            "id" => {
                let event = open.get_or_insert_default();
                event.id = Some(value).filter(|id| id.is_ascii()).or(event.id.take());
            }
            "data" => {
                let event = open.get_or_insert_default();
                let before = event.data.take().map(|data| data + "\n").unwrap_or_default();
                event.data = Some(before + &value);
            }
            _ => {}
        }
    }
    events
}

proptest! {
    /// Wherever the chunks end, the events are the same, and no piece of the
    /// stream is waited for that is not needed.
    #[test]
    fn cuts_do_not_matter(
        stream in proptest::collection::vec(prop_oneof![
            Just("\r"), Just("\n"), Just("\r\n"), Just("data: x"), Just(":"), Just("id"), Just("é"),
        ], 0..40).prop_map(|parts| parts.concat()),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = stream.as_bytes();
        let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
        let events = decode(&[head, tail]);
        prop_assert_eq!(&events, &by_the_standard(&stream));
        let bytewise: Vec<_> = bytes.chunks(1).collect();
        prop_assert_eq!(&decode(&bytewise), &events);
        let encoded: Vec<_> = events.iter().flat_map(|event| event.encode().to_vec()).collect();
        prop_assert_eq!(decode(&[&encoded]), events);
    }
}
