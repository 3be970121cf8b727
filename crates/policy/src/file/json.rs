//! Parses JSON text into a tree of nodes.

use sluice_wire::json::{Bounds, Document, Kind, Reason, Refusal, Value};

use super::{
    DEEPEST, LONGEST_TEXT,
    node::{Content, Member, Node, Span},
    problem::Problems,
};

/// Parses the text; stops at a syntax error.
pub(super) fn read(text: &[u8], problems: &mut Problems) -> Option<Node> {
    let bounds = Bounds {
        bytes: LONGEST_TEXT,
        depth: DEEPEST,
        string: LONGEST_TEXT,
        members: LONGEST_TEXT,
        nodes: LONGEST_TEXT,
        ..Bounds::default()
    };
    match Document::parse_keeping_repeated_keys(text, &bounds) {
        Ok(document) => Some(node(document.root())),
        Err(refusal) => {
            report(text, &refusal, problems);
            None
        }
    }
}

fn report(text: &[u8], refusal: &Refusal, problems: &mut Problems) {
    let (offset, reason) = (refusal.offset, &refusal.reason);
    let before = text.get(..offset).unwrap_or_default().trim_ascii_end();
    let here = text.get(offset).copied();
    let (offset, message, hint) = match reason {
        Reason::TooDeep(most) => (offset, format!("the policy is nested deeper than {most}"), ""),
        Reason::Comment => (offset, "comments are not JSON".into(), COMMENTS),
        Reason::Expected(_) if here == Some(b'#') => {
            (offset, "comments are not JSON".into(), COMMENTS)
        }
        Reason::End if text.trim_ascii().is_empty() => (
            offset,
            "the policy is empty".into(),
            r#"begin with { "version": "1", "default": "deny" }"#,
        ),
        Reason::Expected(_) if matches!(here, Some(b'}' | b']')) && before.ends_with(b",") => {
            (before.len() - 1, "not valid JSON: trailing comma".into(), "take the comma away")
        }
        Reason::ControlCharacter if matches!(here, Some(b'\n' | b'\r')) => (
            offset,
            "not valid JSON: the string is not closed on its line".into(),
            "add the closing quote",
        ),
        Reason::Escape => {
            (offset, format!("not valid JSON: {reason}"), r"write a backslash as `\\`, as in `\\d`")
        }
        Reason::ByteOrderMark => (
            offset,
            format!("not valid JSON: {reason}"),
            "save the file as UTF-8 without a byte order mark",
        ),
        Reason::Expected(_) if before.is_empty() => (
            offset,
            format!("not valid JSON: {reason}"),
            "a policy in YAML has a name that ends in `.yaml` or `.yml`",
        ),
        reason => (offset, format!("not valid JSON: {reason}"), ""),
    };
    if hint.is_empty() {
        problems.add(Span::at(offset), message);
    } else {
        problems.add_with_hint(Span::at(offset), message, hint.into());
    }
}

const COMMENTS: &str = "use `description`, or write the policy in YAML";

fn node(value: Value<'_>) -> Node {
    let content = match value.kind() {
        Kind::Null => Content::Null,
        Kind::Bool => Content::Bool(value.as_bool().unwrap_or_default()),
        Kind::Number => Content::Number(value.raw().into()),
        Kind::String => Content::String(value.as_str().unwrap_or_default().into()),
        Kind::List => Content::List(value.items().into_iter().flatten().map(node).collect()),
        Kind::Object => Content::Object(
            value
                .members()
                .into_iter()
                .flatten()
                .map(|(key, value)| Member {
                    key: key.as_str().unwrap_or_default().into(),
                    key_span: span(key),
                    value: node(value),
                })
                .collect(),
        ),
    };
    Node { span: span(value), content }
}

fn span(value: Value<'_>) -> Span {
    Span { start: value.offset(), end: value.offset() + value.raw().len() }
}
