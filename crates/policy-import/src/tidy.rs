//! Resolves differences in YAML parsing before the conversion.
//!
//! The older parser treated a null as a missing key, and accepted spellings of numbers that YAML
//! 1.2 does not have. Nulls are removed; such spellings are reported.

use sluice_policy::file::{
    node::{Content, Member, Node},
    problem::Problems,
};

/// The tree as the older parser saw it.
pub(super) fn tidy(root: Node, text: &[u8], problems: &mut Problems) -> Node {
    report_numbers(&root, text, problems);
    let Content::Object(members) = root.content else { return root };
    let members = members.into_iter().filter(is_given).map(|member| match &*member.key {
        "tools" => Member { value: with_empty_tools(member.value), ..member },
        _ => Member { value: without_nulls(member.value), ..member },
    });
    Node { content: Content::Object(members.collect()), ..root }
}

/// Keeps tools without content, because they are available all the same.
fn with_empty_tools(node: Node) -> Node {
    let Content::Object(members) = node.content else { return node };
    let members = members.into_iter().map(|member| match member.value.content {
        Content::Null => {
            let value = Node { content: Content::Object(Vec::new()), ..member.value };
            Member { value, ..member }
        }
        _ => Member { value: without_nulls(member.value), ..member },
    });
    Node { content: Content::Object(members.collect()), ..node }
}

fn without_nulls(node: Node) -> Node {
    let content = match node.content {
        Content::Object(members) => {
            let given = members.into_iter().filter(is_given);
            let tidied = given.map(|m| Member { value: without_nulls(m.value), ..m });
            Content::Object(tidied.collect())
        }
        Content::List(items) => Content::List(items.into_iter().map(without_nulls).collect()),
        other => other,
    };
    Node { content, ..node }
}

/// Whether a member has a value; a condition may compare with null.
fn is_given(member: &Member) -> bool {
    !matches!(member.value.content, Content::Null) || &*member.key == "value"
}

fn report_numbers(node: &Node, text: &[u8], problems: &mut Problems) {
    let written = text.get(node.span.start..node.span.end).unwrap_or_default();
    if let Some((value, instead)) = other_number(&node.content, written) {
        let written = String::from_utf8_lossy(written);
        let message = format!("the older proxy read `{written}` as {value}");
        problems.add_with_hint(node.span, message, instead.into());
    }
    node.items().iter().for_each(|item| report_numbers(item, text, problems));
    node.members().iter().for_each(|member| report_numbers(&member.value, text, problems));
}

/// How the older parser read an unquoted number, if that differs.
fn other_number(content: &Content, written: &[u8]) -> Option<(&'static str, &'static str)> {
    let unsigned = written.strip_prefix(b"-").or(written.strip_prefix(b"+")).unwrap_or(written);
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    match content {
        Content::Number(_) if unsigned.len() > 1 && unsigned.starts_with(b"0") => {
            let octal = unsigned.iter().all(is_digit);
            octal.then_some(("an octal number", "write it without the leading 0, or as `0o…`"))
        }
        Content::String(_) if unsigned.first().is_some_and(is_digit) => {
            let grouped = unsigned.contains(&b'_')
                && unsigned.iter().all(|byte| is_digit(byte) || b"_.".contains(byte));
            grouped.then_some(("a number", "write it without `_`, or in quotes if it is text"))
        }
        _ => None,
    }
}
