//! The tree as a flat list of nodes, and a cursor over it.

use std::fmt;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    List,
    Object,
}

impl Kind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "boolean",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::List => "list",
            Kind::Object => "object",
        }
    }
}

/// One value or key. `start..end` is its range in the source text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) shape: Shape,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// INVARIANT: ranges lie within their buffers and on character boundaries, and
/// `after` is the index just past the last node of the container.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Null,
    True,
    False,
    Number,
    /// A string without escapes: its content is the source between the quotes.
    Plain,
    /// A string with escapes: its content is this range of `Document::decoded`.
    Decoded {
        from: u32,
        to: u32,
    },
    List {
        after: u32,
        count: u32,
    },
    /// Children alternate key, value.
    Object {
        after: u32,
        count: u32,
    },
}

/// A valid JSON text, with its tree.
#[derive(Clone)]
pub struct Document {
    pub(super) text: String,
    pub(super) decoded: String,
    pub(super) nodes: Vec<Node>,
}

impl Document {
    /// The outermost value.
    pub fn root(&self) -> Value<'_> {
        Value { document: self, index: 0 }
    }

    /// The text exactly as it was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text without copying it.
    pub fn into_text(self) -> String {
        self.text
    }

    fn node(&self, index: u32) -> Node {
        // Indices only come from this document's own nodes, so the fallback is never used; it only
        // avoids a panic if an invariant is broken.
        self.nodes.get(index as usize).copied().unwrap_or(Node {
            shape: Shape::Null,
            start: 0,
            end: 0,
        })
    }

    fn string_at(&self, index: u32) -> Option<&str> {
        let node = self.node(index);
        match node.shape {
            Shape::Plain => self.text.get(node.start as usize + 1..node.end as usize - 1),
            Shape::Decoded { from, to } => self.decoded.get(from as usize..to as usize),
            _ => None,
        }
    }

    fn after(&self, index: u32) -> u32 {
        match self.node(index).shape {
            Shape::List { after, .. } | Shape::Object { after, .. } => after,
            _ => index + 1,
        }
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({})", self.root())
    }
}

/// One value of a [`Document`].
#[derive(Clone, Copy)]
pub struct Value<'d> {
    document: &'d Document,
    index: u32,
}

impl<'d> Value<'d> {
    fn node(self) -> Node {
        self.document.node(self.index)
    }

    /// The type of the value.
    pub fn kind(self) -> Kind {
        match self.node().shape {
            Shape::Null => Kind::Null,
            Shape::True | Shape::False => Kind::Bool,
            Shape::Number => Kind::Number,
            Shape::Plain | Shape::Decoded { .. } => Kind::String,
            Shape::List { .. } => Kind::List,
            Shape::Object { .. } => Kind::Object,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        match self.node().shape {
            Shape::True => Some(true),
            Shape::False => Some(false),
            _ => None,
        }
    }

    /// A number's text as it was written, if this is a number.
    pub fn as_number(self) -> Option<&'d str> {
        matches!(self.node().shape, Shape::Number).then(|| self.raw())
    }

    /// The string with escapes decoded, if this is a string.
    pub fn as_str(self) -> Option<&'d str> {
        self.document.string_at(self.index)
    }

    /// The elements in order, if this is a list.
    pub fn items(self) -> Option<Items<'d>> {
        match self.node().shape {
            Shape::List { count, .. } => {
                Some(Items { document: self.document, next: self.index + 1, left: count })
            }
            _ => None,
        }
    }

    /// The members in order, if this is an object.
    pub fn members(self) -> Option<Members<'d>> {
        match self.node().shape {
            Shape::Object { count, .. } => {
                Some(Members { document: self.document, next: self.index + 1, left: count })
            }
            _ => None,
        }
    }

    /// The member with this key, if this is an object that has it.
    pub fn get(self, key: &str) -> Option<Value<'d>> {
        self.members()?.find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
    }

    /// The source text of this value, byte for byte.
    pub fn raw(self) -> &'d str {
        let node = self.node();
        self.document.text.get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    /// The offset of the value in the source text.
    pub fn offset(self) -> usize {
        self.node().start as usize
    }
}

impl PartialEq for Value<'_> {
    /// Same tree: same kinds, same strings, same key order, and numbers with
    /// the same text (`1.0` is not `1`).
    fn eq(&self, other: &Value<'_>) -> bool {
        match (self.kind(), other.kind()) {
            (Kind::List, Kind::List) => {
                self.items().into_iter().flatten().eq(other.items().into_iter().flatten())
            }
            (Kind::Object, Kind::Object) => {
                self.members().into_iter().flatten().eq(other.members().into_iter().flatten())
            }
            (a, b) => {
                a == b
                    && self.as_bool() == other.as_bool()
                    && self.as_number() == other.as_number()
                    && self.as_str() == other.as_str()
            }
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The elements of a list.
#[derive(Debug, Clone)]
pub struct Items<'d> {
    document: &'d Document,
    next: u32,
    left: u32,
}

impl<'d> Iterator for Items<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        self.left = self.left.checked_sub(1)?;
        let value = Value { document: self.document, index: self.next };
        self.next = self.document.after(self.next);
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The members of an object, each a key (always a string) and its value.
#[derive(Debug, Clone)]
pub struct Members<'d> {
    document: &'d Document,
    next: u32,
    left: u32,
}

impl<'d> Iterator for Members<'d> {
    type Item = (Value<'d>, Value<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = Value { document: self.document, index: self.next };
        let value = Value { document: self.document, index: self.next + 1 };
        self.next = self.document.after(self.next + 1);
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Members<'_> {}
