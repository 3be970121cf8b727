//! The scanner agrees with the reader, however the bytes are cut.

use proptest::prelude::*;

use super::{AnswerCheck, AnswerError, Outline};
use crate::{
    json::{Bounds, Document, LoneSurrogates},
    rpc::{Id, Message},
};

fn scanned(text: &[u8], piece: usize) -> Result<Outline, AnswerError> {
    let mut check = AnswerCheck::new(Id::Integer("7".into()), 64);
    for piece in text.chunks(piece) {
        check.push(piece)?;
    }
    check.finish().cloned()
}

fn check(text: &str, expected: Result<&Outline, &AnswerError>) {
    for piece in [1, 2, 3, 7, text.len().max(1)] {
        let found = scanned(text.as_bytes(), piece);
        assert_eq!(found.as_ref(), expected, "{text} in pieces of {piece}");
    }
}

#[test]
fn answers_are_outlined() {
    let plain = Outline::default();
    check(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Ok(&plain));
    check(
        r#" {"result" : {"content":[{"isError":true}],"x":[[1.5e-3,-0,"\u00e9é"]]} , "id":7,"jsonrpc":"2.0", "extra":null}"#,
        Ok(&plain),
    );
    check(r#"{"jsonrpc":"2.0","id":7,"result":[1,2]}"#, Ok(&plain));
    let is_error = Outline { is_error: Some(true), ..Outline::default() };
    check(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"isErr\u006fr":true}}"#, Ok(&is_error));
    let failure = Outline { is_failure: true, ..Outline::default() };
    check(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#, Ok(&failure));
    let complete = Outline { result_type: Some("complete".into()), ..Outline::default() };
    check(r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}"#, Ok(&complete));
    let asks = Outline {
        result_type: Some("input_required".into()),
        is_special: true,
        ..Outline::default()
    };
    check(
        r#"{"jsonrpc":"2.0","id":7,"result":{"inputRequests":{},"resultType":"input_required"}}"#,
        Ok(&asks),
    );
    let task = Outline { is_special: true, ..Outline::default() };
    check(r#"{"jsonrpc":"2.0","id":7,"result":{"task":{"taskId":"t"}}}"#, Ok(&task));
}

#[test]
fn messages_that_are_not_responses_are_refused() {
    check(r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, Err(&AnswerError::OtherId));
    check(r#"{"jsonrpc":"2.0","id":"7","result":{}}"#, Err(&AnswerError::OtherId));
    check(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, Err(&AnswerError::OtherId));
    check(r#"{"jsonrpc":"2.0","result":{}}"#, Err(&AnswerError::OtherId));
    check(r#"{"jsonrpc":"1.0","id":7,"result":{}}"#, Err(&AnswerError::Envelope));
    check(r#"{"id":7,"result":{}}"#, Err(&AnswerError::Envelope));
    check(r#"{"jsonrpc":"2.0","id":7}"#, Err(&AnswerError::Envelope));
    check(r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, Err(&AnswerError::Envelope));
    check(r#"{"jsonrpc":"2.0","id":7,"method":"x"}"#, Err(&AnswerError::Envelope));
    check(r#"{"jsonrpc":"2.0","id":[7],"result":{}}"#, Err(&AnswerError::Envelope));
    check(r#"{"jsonrpc":"2.0","id":7,"result":{},"Id":7}"#, Err(&AnswerError::Ambiguous));
    check(r#"{"jsonrpc":"2.0","id":7,"id":7,"result":{}}"#, Err(&AnswerError::Ambiguous));
    check(r#"{"jsonrpc":"2.0","id":7,"result":{"ResultType":"x"}}"#, Err(&AnswerError::Ambiguous));
    check(r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#, Err(&AnswerError::Envelope));
    check("7", Err(&AnswerError::Envelope));
    check("", Err(&AnswerError::Incomplete));
    check(r#"{"jsonrpc":"2.0","id":7,"result":{"#, Err(&AnswerError::Incomplete));
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    check(&deep, Err(&AnswerError::TooDeep(64)));
}

#[test]
fn names_are_distinct_at_every_depth() {
    let answer = |inner: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"result":{inner}}}"#);
    let many = |last: &str| {
        let names: Vec<_> = (0..100).map(|number| format!(r#""n{number}":0"#)).collect();
        format!(r#"[{{{},"{last}":1}}]"#, names.join(","))
    };
    for inner in [
        r#"{"a":1,"a":2}"#.to_owned(),
        r#"{"x":{"a":1,"\u0061":2}}"#.into(),
        r#"{"x":[[{"a":{"b":1},"c":[{"a":1}],"a":2}]]}"#.into(),
        r#"{"x":{"":1,"":2}}"#.into(),
        r#"{"x":{"\ud83d\ude00":1,"😀":2}}"#.into(),
        many("n0"),
        many("n99"),
    ] {
        check(&answer(&inner), Err(&AnswerError::Ambiguous));
    }
    for inner in [r#"[{"a":1},{"a":2},{"b":{"a":{"a":1}},"a":1}]"#.to_owned(), many("n100")] {
        check(&answer(&inner), Ok(&Outline::default()));
    }
    let long = format!(r#"{{"x":{{"{}":1}}}}"#, "n".repeat(70_000));
    check(&answer(&long), Err(&AnswerError::LongName(64 << 10)));
}

/// Half of a surrogate pair passes in a value, and in no name.
#[test]
fn lone_surrogates_pass_in_values() {
    let answer = |inner: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"result":{inner}}}"#);
    for half in ["\\ud83d", "\\ude00", "\\ud83d\\ud83d", "\\ud83dx"] {
        check(&answer(&format!(r#"["{half}"]"#)), Ok(&Outline::default()));
        check(&answer(&format!(r#"{{"{half}":1}}"#)), Err(&AnswerError::Name));
        check(&answer(&format!(r#"[{{"{half}":1}}]"#)), Err(&AnswerError::Name));
    }
}

#[test]
fn invalid_json_is_found() {
    for result in [
        "01",
        "1.",
        "-",
        "1e",
        "tru",
        "nul]",
        "+1",
        ".5",
        "'a'",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\"}",
        "[1 2]",
        "{,}",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "[}",
        "{]",
        "NaN",
        "1 2",
        "//",
        "[1}",
        "{\"a\":1]",
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
        for piece in [1, 5, 1000] {
            assert!(scanned(text.as_bytes(), piece).is_err(), "{text}");
        }
    }
    let mut bytes = br#"{"jsonrpc":"2.0","id":7,"result":"X"}"#.to_vec();
    for (place, byte) in bytes.clone().into_iter().enumerate() {
        if byte == b'X' {
            bytes[place] = 0xff;
        }
    }
    assert!(scanned(&bytes, 3).is_err());
    assert!(scanned(br#"{"jsonrpc":"2.0","id":7,"result":{}} x"#, 3).is_err());
}

fn json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        "-?[0-9]{1,3}\\.?[0-9]{0,2}([eE][+-]?[0-9]{0,2})?",
        "[a-zé\u{1F600}\\\\\"u0-9 \t]{0,6}".prop_map(|text| format!("\"{text}\"")),
        "(\\\\u(d83d|de00|0061)|a){0,4}".prop_map(|text| format!("\"{text}\"")),
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(("[a-z]{1,2}|\\\\u(d83d|0061)|[ab]", inner), 0..4).prop_map(
                |members| {
                    let members: Vec<_> =
                        members.into_iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
                    format!("{{{}}}", members.join(","))
                }
            ),
        ]
    })
}

#[test]
fn control_characters_are_found_wherever_they_stand() {
    for byte in (0..=0x7f_u8).filter(|byte| !matches!(byte, b'"' | b'\\')) {
        for place in 0..20 {
            let mut content = *b"....\xc3\xa9...........\xc3\xa9.";
            // Not into the middle of a letter.
            if content[place] != b'.' {
                continue;
            }
            content[place] = byte;
            let text = [&br#"{"jsonrpc":"2.0","id":7,"result":{"a":""#[..], &content, br#""}}"#];
            let is_fine = scanned(&text.concat(), 64).is_ok();
            assert_eq!(is_fine, byte >= b' ', "{byte:#x} at {place}");
        }
    }
}

proptest! {
    /// The scanner accepts what the reader accepts as an answer, and nothing else.
    #[test]
    fn scanner_and_reader_agree(result in json(), piece in 1_usize..9) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
        let scan = scanned(text.as_bytes(), piece);
        let bounds = Bounds { lone_surrogates: LoneSurrogates::Replace, ..Bounds::default() };
        let is_answer = Document::parse(text.as_str(), &bounds)
            .is_ok_and(|read| matches!(Message::read(&read), Ok(Message::Response { .. })));
        prop_assert_eq!(scan.is_ok(), is_answer, "{}", text);
    }
}
