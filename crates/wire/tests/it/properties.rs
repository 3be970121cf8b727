//! Laws of the reader over generated texts.

use std::{collections::HashSet, fmt::Write as _};

use proptest::{collection::vec, prelude::*, sample::Index};
use sluice_wire::json::{Bounds, Document, Kind, Value};

use crate::oracle;

/// A tree as a test means it, written down by [`Tree::write`].
#[derive(Debug, Clone)]
enum Tree {
    Word(&'static str),
    Number(String),
    String(Text),
    List(Vec<Tree>),
    Object(Vec<(Text, Tree)>),
}

/// A string, and for each of its characters whether to write it as an escape.
type Text = Vec<(char, bool)>;

fn content(text: &Text) -> String {
    text.iter().map(|(character, _)| character).collect()
}

fn write_text(text: &Text, out: &mut String) {
    out.push('"');
    for &(character, escaped) in text {
        if escaped || character < ' ' || matches!(character, '"' | '\\') {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04X}").unwrap();
            }
        } else {
            out.push(character);
        }
    }
    out.push('"');
}

impl Tree {
    /// Writes the tree with `blank` around every token.
    fn write(&self, blank: &str, out: &mut String) {
        out.push_str(blank);
        match self {
            Tree::Word(word) => out.push_str(word),
            Tree::Number(number) => out.push_str(number),
            Tree::String(text) => write_text(text, out),
            Tree::List(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    out.push_str(if position == 0 { "" } else { "," });
                    item.write(blank, out);
                }
                out.push_str(blank);
                out.push(']');
            }
            Tree::Object(members) => {
                out.push('{');
                for (position, (key, value)) in members.iter().enumerate() {
                    out.push_str(if position == 0 { "" } else { "," });
                    out.push_str(blank);
                    write_text(key, out);
                    out.push_str(blank);
                    out.push(':');
                    value.write(blank, out);
                }
                out.push_str(blank);
                out.push('}');
            }
        }
        out.push_str(blank);
    }

    fn is(&self, value: Value<'_>) -> bool {
        match self {
            Tree::Word(word) => {
                matches!(value.kind(), Kind::Null | Kind::Bool) && value.raw() == *word
            }
            Tree::Number(number) => value.as_number() == Some(number),
            Tree::String(text) => value.as_str() == Some(&content(text)),
            Tree::List(items) => value.items().is_some_and(|values| {
                values.len() == items.len() && values.zip(items).all(|(value, item)| item.is(value))
            }),
            Tree::Object(members) => value.members().is_some_and(|values| {
                values.len() == members.len()
                    && values.zip(members).all(|((key, value), (name, member))| {
                        key.as_str() == Some(&content(name)) && member.is(value)
                    })
            }),
        }
    }
}

fn text() -> impl Strategy<Value = Text> {
    let character = prop_oneof![
        4 => prop::char::range('a', 'e'),
        2 => prop::char::range('\0', '\u{7f}'),
        1 => prop::sample::select(vec!['"', '\\', '/', 'é', '\u{2028}', '\u{ffff}', '😀']),
        1 => any::<char>(),
    ];
    vec((character, prop::bool::weighted(0.2)), 0..20)
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false"]).prop_map(Tree::Word),
        r"-?(0|[1-9][0-9]{0,2}|[1-9][0-9]{15,40})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?"
            .prop_map(Tree::Number),
        text().prop_map(Tree::String),
    ];
    leaf.prop_recursive(6, 120, 24, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..24).prop_map(Tree::List),
            vec((text(), inner), 0..24).prop_map(|mut members| {
                let mut seen = HashSet::new();
                members.retain(|(key, _)| seen.insert(content(key)));
                Tree::Object(members)
            }),
        ]
    })
}

fn json() -> impl Strategy<Value = (Tree, String)> {
    (tree(), "[ \t\r\n]{0,2}").prop_map(|(tree, blank)| {
        let mut text = String::new();
        tree.write(&blank, &mut text);
        (tree, text)
    })
}

/// One change to a text: `length` bytes from `from` on become `by`.
#[derive(Debug, Clone)]
struct Change {
    from: Index,
    length: usize,
    by: Vec<u8>,
}

fn change() -> impl Strategy<Value = Change> {
    let token = prop::sample::select(vec![
        "", "\"", "\\", "\\u", "\\ud800", "{", "}", "[", "]", ",", ":", "0", "1", "-", "+", ".",
        "e", "E", "n", "null", "true", "NaN", "//", " ", "\n", "\0", "\u{7f}", "é", "\u{feff}",
        "{}", "\"a\":1,",
    ]);
    let by = prop_oneof![
        6 => token.prop_map(|token| token.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..3),
    ];
    (any::<Index>(), 0..3_usize, by).prop_map(|(from, length, by)| Change { from, length, by })
}

fn apply(change: &Change, text: &mut Vec<u8>) {
    let from = change.from.index(text.len() + 1);
    let to = text.len().min(from + change.length);
    text.splice(from..to, change.by.iter().copied());
}

fn config() -> ProptestConfig {
    // A failure is kept by writing it as a case of its own, not as a seed.
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_tree_is_read_as_it_was_written((tree, text) in json()) {
        let document = Document::parse(text.as_str(), &Bounds::default()).unwrap();
        prop_assert!(tree.is(document.root()));
        prop_assert_eq!(document.text(), &text);
        let theirs = serde_json::from_str(&text).unwrap();
        prop_assert!(oracle::same(document.root(), &theirs), "{} / {}", document.root(), theirs);
    }

    #[test]
    fn printing_and_reading_again_changes_nothing((tree, text) in json()) {
        let document = Document::parse(text, &Bounds::default()).unwrap();
        let printed = document.root().to_string();
        let again = Document::parse(printed.as_str(), &Bounds::default()).unwrap();
        prop_assert!(tree.is(again.root()));
        prop_assert_eq!(again.root(), document.root());
        prop_assert_eq!(again.root().to_string(), printed);
    }

    /// Each tree is damaged in several ways, because making it is what takes time.
    #[test]
    fn no_damage_is_read_in_two_ways(
        (_, text) in json(),
        damages in vec(vec(change(), 1..4), 12),
    ) {
        for damage in &damages {
            let mut damaged = text.clone().into_bytes();
            for change in damage {
                apply(change, &mut damaged);
            }
            oracle::check(&damaged);
        }
    }
}

#[test]
fn the_key_that_serde_json_keeps_for_itself_is_a_key_like_any_other() {
    // Judging by one reader and executing by the other would let a number pass
    // as an object, or the other way round.
    let text = r#"{"$serde_json::private::Number":"1"}"#;
    let ours = Document::parse(text, &Bounds::default()).unwrap();
    assert_eq!(ours.root().kind(), Kind::Object);
    assert!(oracle::has_reserved_key(ours.root()));
    let theirs: serde_json::Value = serde_json::from_str(text).unwrap();
    assert!(theirs.is_number(), "the trap is gone: compare such texts as well");
}
