//! Reasons for a category, each with the part of the definition that supports it.

use std::fmt;

use crate::Category;

/// A part of a tool's definition, or of its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    Name,
    Title,
    Description,
    /// A parameter's name.
    Parameter,
    /// A parameter's description.
    ParameterDescription,
    /// An allowed value of a parameter.
    EnumValue,
    /// A parameter's default, constant or example.
    Offered,
    /// An annotation by the author.
    Hint,
    /// The other tools of the server.
    Siblings,
    /// The server's name.
    Server,
    /// The server's `instructions`.
    Instructions,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 11] = [
        Part::Name,
        Part::Title,
        Part::Description,
        Part::Parameter,
        Part::ParameterDescription,
        Part::EnumValue,
        Part::Hint,
        Part::Siblings,
        Part::Server,
        Part::Instructions,
        Part::Offered,
    ];

    /// The name used in output.
    pub fn name(self) -> &'static str {
        match self {
            Part::Name => "name",
            Part::Title => "title",
            Part::Description => "description",
            Part::Parameter => "parameter",
            Part::ParameterDescription => "parameter description",
            Part::EnumValue => "enum value",
            Part::Offered => "offered value",
            Part::Hint => "hint",
            Part::Siblings => "siblings",
            Part::Server => "server",
            Part::Instructions => "instructions",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The category that it supports.
    pub category: Category,
    /// The reason in words.
    pub text: &'static str,
    pub at: Spot,
}

/// A location in a definition, with a quotation.
///
/// `start..end` are byte offsets in the part's text with escapes decoded: the name, the
/// description, a parameter's name or description, an enum's value. Quotations are cut at 200
/// bytes, so that a definition cannot be repeated many times over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    pub part: Part,
    /// The parameter it belongs to, if any.
    pub parameter: Option<String>,
    pub start: usize,
    pub end: usize,
    /// The quoted text; untrusted, so it must be escaped for a terminal.
    pub quote: String,
}
