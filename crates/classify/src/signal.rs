//! Signals: properties that make a tool more useful to an attacker, in any category.

use std::fmt;

use crate::{
    Category,
    definition::{Definition, Parameter},
    fact::{Fact, Facts, Location, Position},
    lexicon::LEXICON,
    reason::{Part, Spot},
    words::{self, place},
};

/// A property that makes a tool more useful to an attacker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    pub kind: SignalKind,
    pub at: Spot,
}

/// The kind of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignalKind {
    /// Takes code, a command or a query as free text.
    FreeFormCode,
    /// Takes an address that it may connect to.
    Url,
    /// Takes a path in a file system.
    FilePath,
    /// Takes or handles passwords, keys or tokens.
    Credentials,
    /// Acts on many objects at once.
    Bulk,
    /// Changes permissions, members or settings of a whole system.
    Admin,
    /// Reaches beyond its own server.
    OpenWorld,
}

impl SignalKind {
    /// All kinds.
    pub const ALL: [SignalKind; 7] = [
        SignalKind::FreeFormCode,
        SignalKind::Url,
        SignalKind::FilePath,
        SignalKind::Credentials,
        SignalKind::Bulk,
        SignalKind::Admin,
        SignalKind::OpenWorld,
    ];

    /// The name used in output and in files.
    pub fn name(self) -> &'static str {
        match self {
            SignalKind::FreeFormCode => "free-form-code",
            SignalKind::Url => "url",
            SignalKind::FilePath => "file-path",
            SignalKind::Credentials => "credentials",
            SignalKind::Bulk => "bulk",
            SignalKind::Admin => "admin",
            SignalKind::OpenWorld => "open-world",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<SignalKind> {
        SignalKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for SignalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The signals of a definition, each kind once, at its first location.
pub(crate) fn find(
    definition: &Definition<'_>,
    parameters: &[Parameter<'_>],
    facts: &Facts<'_>,
    category: Category,
) -> Vec<Signal> {
    let mut found = Vec::new();
    for parameter in parameters {
        if let Some((kind, at)) = of_parameter(parameter, facts, category) {
            add(&mut found, kind, at);
        }
    }
    // Reading many objects, or reading permissions, is not yet a danger.
    if category >= Category::Write {
        for (kind, class) in [(SignalKind::Bulk, "bulk"), (SignalKind::Admin, "admin")] {
            if let Some(at) = find_class(facts, &[Position::Name, Position::Param], class) {
                add(&mut found, kind, at);
            }
        }
    }
    if let Some(at) = reach(definition, facts) {
        add(&mut found, SignalKind::OpenWorld, at);
    }
    found.sort_by_key(|signal| signal.kind);
    found
}

fn add(found: &mut Vec<Signal>, kind: SignalKind, at: Location<'_>) {
    if !found.iter().any(|signal| signal.kind == kind) {
        found.push(Signal { kind, at: Spot::from(at) });
    }
}

/// The signal that a parameter's name indicates.
fn of_parameter<'d>(
    parameter: &Parameter<'d>,
    facts: &Facts<'d>,
    category: Category,
) -> Option<(SignalKind, Location<'d>)> {
    let is_text = parameter.is_free_text();
    for word in words::of_name(parameter.name) {
        let classes = words::stems(word.as_str(), |word| LEXICON.parameter(word));
        let is = |class| {
            classes.zip(LEXICON.class(class)).is_some_and(|(classes, class)| classes.has(class))
        };
        let is_run = || is("code") && category == Category::Execute;
        let is_asked = || {
            is("query") && find_class(facts, &[Position::Name, Position::Topic], "sql").is_some()
        };
        let kind = if is_text && (is("command") || is("sql") || is_run() || is_asked()) {
            SignalKind::FreeFormCode
        } else if is("url") && (is_text || parameter.is_list()) {
            SignalKind::Url
        } else if is("path") && (is_text || parameter.is_list()) {
            SignalKind::FilePath
        } else if is("secret") && is_text && !is_place_in_list(parameter.name) {
            SignalKind::Credentials
        } else {
            continue;
        };
        let at = Location {
            part: Part::Parameter,
            parameter: parameter.name,
            text: parameter.name,
            start: word.start,
            end: word.end,
        };
        return Some((kind, at));
    }
    None
}

/// Whether a `token` is a page token or counts words, and so is not a credential.
fn is_place_in_list(parameter: &str) -> bool {
    let counting = ["page", "next", "continuation", "cursor", "sync", "max", "limit", "count"];
    words::of_name(parameter).any(|word| counting.contains(&word.as_str()))
}

/// The location of a word of this class, in the first of these positions that has one.
fn find_class<'d>(facts: &Facts<'d>, positions: &[Position], class: &str) -> Option<Location<'d>> {
    let class = LEXICON.class(class)?;
    positions.iter().find_map(|position| facts.place(Fact { position: *position, class }))
}

/// The evidence that a tool reaches beyond its server.
fn reach<'d>(definition: &Definition<'d>, facts: &Facts<'d>) -> Option<Location<'d>> {
    if definition.hint("openWorldHint") == Some(true) {
        let text = "openWorldHint";
        return Some(Location {
            part: Part::Hint,
            parameter: "",
            text,
            start: 0,
            end: place(text.len()),
        });
    }
    find_class(facts, &[Position::Name, Position::Topic], "world")
        .or_else(|| find_class(facts, &[Position::Param], "url"))
}
