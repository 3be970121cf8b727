//! The JSON reader: it agrees with an independent one, loses nothing, and keeps
//! its bounds exactly.

#[path = "../../crates/wire/tests/it/oracle.rs"]
mod oracle;

use sluice_wire::{
    json::{Bounds, Document, LoneSurrogates, Reason, Value},
    rpc::Message,
};

/// Small enough that short inputs meet every bound.
const TIGHT: Bounds = Bounds {
    bytes: 96,
    depth: 3,
    string: 8,
    number: 4,
    members: 4,
    nodes: 12,
    lone_surrogates: LoneSurrogates::Refuse,
};

/// Reads `data` in every way there is.
pub fn check(data: &[u8]) {
    oracle::check(data);
    check_repeated_keys(data);
    let Ok(document) = Document::parse(data, &Bounds::default()) else { return };
    assert_eq!(document.text().as_bytes(), data);
    check_value(document.root());
    check_tight_bounds(&document);
    check_envelope(&document);
}

/// Keeping repeated keys changes nothing but that.
fn check_repeated_keys(data: &[u8]) {
    let strict = Document::parse(data, &Bounds::default());
    let keeping = Document::parse_keeping_repeated_keys(data, &Bounds::default());
    match (strict, keeping) {
        (Ok(strict), Ok(keeping)) => assert_eq!(strict.root(), keeping.root()),
        (Err(strict), _) if matches!(strict.reason, Reason::DuplicateKey(_)) => {}
        (Err(strict), Err(keeping)) => assert_eq!(strict, keeping),
        (strict, keeping) => panic!("{strict:?} / {keeping:?}"),
    }
}

/// A value's source text and its printed text both read back as the value.
fn check_value(value: Value<'_>) {
    for text in [value.raw().to_owned(), value.to_string()] {
        // Printing may lengthen a text, for there are two spellings of `\b`.
        let bounds = Bounds { bytes: usize::MAX, ..Bounds::default() };
        let again = Document::parse(text, &bounds).expect("what was accepted once");
        assert_eq!(again.root(), value);
    }
    for (key, member) in value.members().into_iter().flatten() {
        let name = key.as_str().expect("a key is a string");
        assert_eq!(value.get(name), Some(member));
        check_value(member);
    }
    value.items().into_iter().flatten().for_each(check_value);
}

/// A document is refused by the tight bounds exactly if it exceeds one of them.
fn check_tight_bounds(document: &Document) {
    let mut nodes = 0;
    let fits = document.text().len() <= TIGHT.bytes
        && fits(document.root(), 0, &mut nodes)
        && nodes <= TIGHT.nodes;
    let found = Document::parse(document.text(), &TIGHT);
    assert_eq!(found.is_ok(), fits, "{found:?}");
}

fn fits(value: Value<'_>, depth: usize, nodes: &mut usize) -> bool {
    *nodes += 1;
    let depth = depth + usize::from(value.items().is_some() || value.members().is_some());
    depth <= TIGHT.depth
        && value.as_str().is_none_or(|text| text.len() <= TIGHT.string)
        && value.as_number().is_none_or(|text| text.len() <= TIGHT.number)
        && value.items().is_none_or(|mut items| {
            items.len() <= TIGHT.members && items.all(|item| fits(item, depth, nodes))
        })
        && value.members().is_none_or(|mut members| {
            members.len() <= TIGHT.members
                && members.all(|(key, member)| {
                    key.as_str().is_some_and(|name| name.len() <= TIGHT.string)
                        && fits(member, depth, nodes)
                })
        })
}

/// A message says what its members say.
fn check_envelope(document: &Document) {
    let Ok(message) = Message::read(document) else { return };
    let member = |name| document.root().get(name);
    assert_eq!(member("jsonrpc").and_then(Value::as_str), Some("2.0"));
    match message {
        Message::Request { method, params, .. } => {
            assert_eq!(member("method").and_then(Value::as_str), Some(method));
            assert_eq!(member("params"), params);
            assert!(member("id").is_some_and(|id| !id.is_null()));
        }
        Message::Notification { method, params } => {
            assert_eq!(member("method").and_then(Value::as_str), Some(method));
            assert_eq!(member("params"), params);
            assert_eq!(member("id"), None);
        }
        Message::Response { result, .. } => {
            assert_eq!(member("result"), Some(result));
            assert!(member("id").is_some_and(|id| !id.is_null()));
        }
        Message::Failure { id, error } => {
            assert_eq!(member("error"), Some(error));
            assert_eq!(id.is_some(), member("id").is_some_and(|id| !id.is_null()));
        }
    }
    for other in ["METHOD", "Id", "result ", "params\0"] {
        assert_eq!(member(other), None, "a look-alike got through");
    }
}
