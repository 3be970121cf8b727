//! Agreement with `serde_json`, a reader written by other people.
//!
//! Shared with the fuzz target `wire`, which includes this file.

use serde_json::Value as Theirs;
use sluice_wire::json::{Bounds, Document, Kind, Reason, Value};

/// Reads `text` both ways. What we accept, `serde_json` must accept as the same
/// tree; what only we refuse, we must refuse for being stricter on purpose.
pub(crate) fn check(text: &[u8]) {
    let ours = Document::parse(text, &Bounds::default());
    let theirs = serde_json::from_slice::<Theirs>(text);
    match (&ours, &theirs) {
        (Ok(ours), _) if has_reserved_key(ours.root()) => {}
        (Ok(ours), Ok(theirs)) => assert!(same(ours.root(), theirs), "{ours:?} / {theirs}"),
        (Ok(ours), Err(error)) => panic!("only we accept {ours:?}: {error}"),
        (Err(refusal), Ok(_)) => assert!(is_strictness(&refusal.reason), "{refusal}"),
        (Err(_), Err(_)) => {}
    }
    if let Err(refusal) = ours {
        assert!(refusal.offset <= text.len(), "{refusal}");
    }
}

/// Whether the two trees are the same, keys in the same order.
pub(crate) fn same(ours: Value<'_>, theirs: &Theirs) -> bool {
    match theirs {
        Theirs::Null => ours.is_null(),
        Theirs::Bool(theirs) => ours.as_bool() == Some(*theirs),
        Theirs::Number(theirs) => {
            ours.as_number().is_some_and(|ours| with_plain_exponent(ours) == theirs.as_str())
        }
        Theirs::String(theirs) => ours.as_str() == Some(theirs),
        Theirs::Array(theirs) => ours.items().is_some_and(|ours| {
            ours.len() == theirs.len() && ours.zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }),
        Theirs::Object(theirs) => ours.members().is_some_and(|ours| {
            ours.len() == theirs.len()
                && ours.zip(theirs).all(|((key, ours), (name, theirs))| {
                    key.as_str() == Some(name) && same(ours, theirs)
                })
        }),
    }
}

/// Whether some object has a key that `serde_json` keeps for itself.
///
/// With `arbitrary_precision` it hands numbers to its `Value` as an object whose
/// only key is `$serde_json::private::Number`, and takes the same object in the
/// text for a number: `{"$serde_json::private::Number":"1"}` becomes `1`, and
/// with any other content it is an error. Its `raw_value` feature keeps a second
/// such key. Such texts cannot be compared; ours reads them as what they are.
pub(crate) fn has_reserved_key(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::List => value.items().into_iter().flatten().any(has_reserved_key),
        Kind::Object => value.members().into_iter().flatten().any(|(key, value)| {
            key.as_str().is_some_and(|key| key.starts_with("$serde_json::private::"))
                || has_reserved_key(value)
        }),
        _ => false,
    }
}

/// `serde_json` writes every exponent as `e` and a sign, whatever the text said.
fn with_plain_exponent(number: &str) -> String {
    match number.split_once(['e', 'E']) {
        None => number.to_owned(),
        Some((digits, exponent)) if exponent.starts_with(['+', '-']) => {
            format!("{digits}e{exponent}")
        }
        Some((digits, exponent)) => format!("{digits}e+{exponent}"),
    }
}

/// Reasons to refuse a text that is JSON all the same.
fn is_strictness(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::DuplicateKey(_)
            | Reason::TooLong(_)
            | Reason::TooDeep(_)
            | Reason::LongString(_)
            | Reason::LongNumber(_)
            | Reason::TooManyMembers(_)
            | Reason::TooManyNodes(_)
    )
}
