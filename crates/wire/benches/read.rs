//! Reading `tools/call` bodies, ours beside `serde_json`'s `Value`.
//!
//! Both are given the bytes and end with a tree that can be walked. Ours takes
//! over its buffer, so the time to copy the bytes is counted against it.

use std::fmt::Write as _;

use divan::{Bencher, counter::BytesCount};
use sluice_wire::json::{Bounds, Document};

/// Bytes, about: a record is never cut.
const SIZES: [usize; 3] = [200, 2_000, 64_000];

fn main() {
    divan::main();
}

#[divan::bench(args = SIZES)]
fn ours(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    let bounds = Bounds::default();
    bencher
        .counter(BytesCount::new(body.len()))
        .bench(|| Document::parse(body.as_bytes(), &bounds));
}

#[divan::bench(args = SIZES)]
fn serde_json_value(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    bencher
        .counter(BytesCount::new(body.len()))
        .bench(|| serde_json::from_slice::<serde_json::Value>(body.as_bytes()));
}

const NAMES: [&str; 6] = ["path", "title", "labels", "content", "created_at", "assignee"];

const TEXTS: [&str; 6] = [
    "src/gateway/listen.rs",
    r#"She said \"not today\" and left.\nNobody asked why."#,
    "Überprüfung der Rechnung für März, bitte bis Freitag",
    "The quick brown fox jumps over the lazy dog, again and again, until the page is full.",
    "2026-03-01T12:00:00Z",
    r"東京都 \ud83d\ude00 C:\\work\\notes",
];

const NUMBERS: [&str; 6] = ["1", "42", "-17.25", "1709294400", "0.1", "6.02e23"];

/// A `tools/call` body, the same on every run.
fn body(size: usize) -> String {
    let mut body = String::from(concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"t-1"},"#,
        r#""name":"write_notes","arguments":{"items":["#,
    ));
    let choices = NAMES.iter().zip(TEXTS).zip(NUMBERS).cycle();
    for (record, ((name, text), number)) in choices.enumerate() {
        let comma = if record == 0 { "" } else { "," };
        let nested = match record % 3 {
            1 => r#","meta":{"tags":["a","b",null],"size":{"w":640,"h":480}}"#,
            _ => "",
        };
        write!(body, r#"{comma}{{"{name}":"{text}","count":{number},"done":true{nested}}}"#)
            .expect("a string takes all that is written to it");
        if body.len() + 60 >= size {
            break;
        }
    }
    body.push_str("]}}}");
    body
}
