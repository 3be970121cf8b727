//! The syntax tree of JSON and YAML: values with their source positions.

use std::fmt;

use serde_json::{Map, Value as Json};
use sluice_wire::json::write_string;

/// A range of bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn at(offset: usize) -> Span {
        Span { start: offset, end: offset }
    }
}

/// One value.
#[derive(Debug, Clone)]
pub struct Node {
    pub span: Span,
    pub content: Content,
}

#[derive(Debug, Clone)]
pub enum Content {
    /// A value whose error was already reported; it is not reported again.
    Reported,
    Null,
    Bool(bool),
    /// The text of a JSON number.
    Number(Box<str>),
    String(Box<str>),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// One key of an object with its value.
#[derive(Debug, Clone)]
pub struct Member {
    pub key: Box<str>,
    pub key_span: Span,
    pub value: Node,
}

impl Node {
    /// The type's name in error messages.
    pub fn kind(&self) -> &'static str {
        match &self.content {
            Content::Reported => "nothing usable",
            Content::Null => "null",
            Content::Bool(_) => "boolean",
            Content::Number(_) => "number",
            Content::String(_) => "string",
            Content::List(_) => "list",
            Content::Object(_) => "object",
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.content {
            Content::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    pub fn as_number(&self) -> Option<&str> {
        match &self.content {
            Content::Number(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number written as plain digits.
    pub fn as_whole(&self) -> Option<u64> {
        self.as_number()?.parse().ok()
    }

    /// The elements of a list; empty for other types.
    pub fn items(&self) -> &[Node] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// The members of an object; empty for other types.
    pub fn members(&self) -> &[Member] {
        match &self.content {
            Content::Object(members) => members,
            _ => &[],
        }
    }

    /// The first member with this key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.members().iter().find(|member| &*member.key == key).map(|member| &member.value)
    }

    /// Converts the tree for the schema library.
    pub fn to_serde(&self) -> Json {
        match &self.content {
            Content::Reported | Content::Null => Json::Null,
            Content::Bool(truth) => Json::Bool(*truth),
            Content::Number(text) => crate::schema::number(text),
            Content::String(text) => Json::String(text.to_string()),
            Content::List(items) => items.iter().map(Node::to_serde).collect(),
            Content::Object(members) => Json::Object(
                members
                    .iter()
                    .map(|member| (member.key.to_string(), member.value.to_serde()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

impl fmt::Display for Node {
    /// Compact JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::Reported | Content::Null => f.write_str("null"),
            Content::Bool(truth) => truth.fmt(f),
            Content::Number(text) => f.write_str(text),
            Content::String(text) => write_string(f, text),
            Content::List(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    f.write_str(if place > 0 { "," } else { "" })?;
                    item.fmt(f)?;
                }
                f.write_str("]")
            }
            Content::Object(members) => {
                f.write_str("{")?;
                for (place, member) in members.iter().enumerate() {
                    f.write_str(if place > 0 { "," } else { "" })?;
                    write_string(f, &member.key)?;
                    f.write_str(":")?;
                    member.value.fmt(f)?;
                }
                f.write_str("}")
            }
        }
    }
}
