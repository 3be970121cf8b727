//! The scanner agrees with the reader, however the bytes are cut.

use proptest::prelude::*;

use super::{AnswerCheck, AnswerError, Outline};
use crate::{
    json::{Bounds, Document},
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
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(("[a-z]{1,3}", inner), 0..4).prop_map(|members| {
                let members: Vec<_> =
                    members.into_iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
                format!("{{{}}}", members.join(","))
            }),
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
    /// What the strict reader accepts as an answer, the scanner accepts too, and
    /// what the scanner accepts is JSON to another parser.
    #[test]
    fn scanner_and_reader_agree(result in json(), piece in 1_usize..9) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
        let scan = scanned(text.as_bytes(), piece);
        if let Ok(document) = Document::parse(text.as_str(), &Bounds::default()) {
            let is_answer = matches!(Message::read(&document), Ok(Message::Response { .. }));
            prop_assert_eq!(scan.is_ok(), is_answer, "{}", text);
        } else if scan.is_ok() {
            let other: Result<serde_json::Value, _> = serde_json::from_str(&text);
            // Lone halves of surrogate pairs pass here: they are in no name.
            prop_assert!(other.is_ok() || text.contains("\\u"), "{}", text);
        }
    }
}
