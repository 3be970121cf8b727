//! JSON text as a tree of nodes.

use sluice_wire::json::{Bounds, Document, Kind, Reason, Refusal, Value};

use super::{
    DEEPEST, LONGEST_TEXT,
    node::{Content, Member, Node, Span},
    problem::Problems,
};

/// Reads the text; a syntax problem ends the reading.
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
    let span = Span::at(refusal.offset);
    match &refusal.reason {
        Reason::TooDeep(most) => {
            problems.add(span, format!("the policy is nested deeper than {most}"));
        }
        Reason::Comment => problems.add_with_hint(
            span,
            "comments are not JSON".into(),
            "use `description`, or write the policy in YAML".into(),
        ),
        Reason::End if text.trim_ascii().is_empty() => problems.add_with_hint(
            span,
            "the policy is empty".into(),
            r#"begin with { "version": "1", "default": "deny" }"#.into(),
        ),
        reason => problems.add(span, format!("not valid JSON: {reason}")),
    }
}

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
