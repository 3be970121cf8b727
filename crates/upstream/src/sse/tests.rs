//! Streams in every way they can be written and cut.

use proptest::prelude::*;

use super::{Block, Event, Splitter, SseError};

/// The blocks of a stream that arrives in these chunks, and what is left open.
fn split(chunks: &[&[u8]]) -> (Vec<Block>, Vec<u8>) {
    let mut splitter = Splitter::new(1 << 20);
    let mut blocks = Vec::new();
    for chunk in chunks {
        splitter.push(chunk, |block| blocks.push(block)).unwrap();
    }
    (blocks, splitter.open)
}

fn data(stream: &str) -> Vec<Option<String>> {
    split(&[stream.as_bytes()]).0.iter().map(|block| block.read().unwrap().data).collect()
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
    let read = |text: &str| split(&[text.as_bytes()]).0[0].read().unwrap();
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
    assert_eq!(read(": keep-alive\n\n"), Event::default());
    assert_eq!(read("id: a\0b\nretry: 1s\n\n"), Event::default());
    assert_eq!(read("\u{feff}data: a\n\n").data, Some("a".into()));
    // Only at the very beginning is a byte order mark nothing.
    assert_eq!(data("data: a\n\n\u{feff}data: b\n\n"), [Some("a".into()), None]);
}

#[test]
fn what_is_not_ended_is_no_event() {
    let (blocks, open) = split(&[b"data: a\n\ndata: b\n"]);
    assert_eq!(blocks.len(), 1);
    assert_eq!(open, b"data: b\n");
}

#[test]
fn long_events_and_wrong_bytes_are_refused() {
    let mut splitter = Splitter::new(10);
    assert_eq!(splitter.push(b"data: 1\n\n", drop), Ok(()));
    assert_eq!(splitter.push(b"data: 12345\n\n", drop), Err(SseError::TooLong(10)));
    assert_eq!(split(&[b"data: \xff\n\n"]).0[0].read(), Err(SseError::Utf8));
}

/// The events of a stream, read line by line as the standard describes it.
fn by_the_standard(stream: &str) -> Vec<Event> {
    let unified = stream.replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut open, mut seen) = (Vec::new(), Event::default(), false);
    for line in unified.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        if !line.is_empty() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            open.take(field, value.strip_prefix(' ').unwrap_or(value));
            seen = true;
        } else if std::mem::take(&mut seen) {
            events.push(std::mem::take(&mut open));
        }
    }
    events
}

proptest! {
    /// Wherever the chunks end, the events are the same and no byte is lost.
    #[test]
    fn cuts_do_not_matter(
        stream in proptest::collection::vec(prop_oneof![
            Just("\r"), Just("\n"), Just("\r\n"), Just("data: x"), Just(":"), Just("id"), Just("é"),
        ], 0..40).prop_map(|parts| parts.concat()),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = stream.as_bytes();
        let whole = split(&[bytes]);
        let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
        let (blocks, open) = split(&[head, tail]);
        let events = |blocks: &[Block]| -> Vec<_> {
            blocks.iter().map(|block| block.read().unwrap()).collect()
        };
        prop_assert_eq!(events(&blocks), events(&whole.0));
        prop_assert_eq!(events(&blocks), by_the_standard(&stream));
        let mut kept: Vec<u8> = blocks.into_iter().flat_map(Block::into_bytes).collect();
        kept.extend(open);
        prop_assert_eq!(kept, bytes);
    }
}
