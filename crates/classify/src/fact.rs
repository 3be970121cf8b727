//! Facts: which classes of words occur in which position of a definition.

use crate::{lexicon::LEXICON, reason::Part};

/// The position of a word in a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// The verb of the name.
    Lead,
    /// The verb of the name, if it may also be a noun.
    Maybe,
    /// Further verbs of the name, joined by `and` or `or`.
    And,
    /// Nouns of the name.
    Name,
    /// The noun that the name ends with.
    Ends,
    /// The verb of the description's first sentence.
    Says,
    /// Further verbs of that sentence.
    Also,
    /// Nouns of that sentence.
    Topic,
    /// Verbs among the values of an enum that chooses an action.
    Action,
    /// Parameters.
    Param,
    /// Phrases anywhere in the description.
    Text,
    /// The author's hints.
    Hint,
    /// Words of the server's name.
    Server,
    /// What most other tools of the server do.
    Sibling,
}

impl Position {
    pub(crate) const ALL: [(&'static str, Position); 14] = [
        ("lead", Position::Lead),
        ("maybe", Position::Maybe),
        ("and", Position::And),
        ("name", Position::Name),
        ("ends", Position::Ends),
        ("says", Position::Says),
        ("also", Position::Also),
        ("topic", Position::Topic),
        ("action", Position::Action),
        ("param", Position::Param),
        ("text", Position::Text),
        ("hint", Position::Hint),
        ("server", Position::Server),
        ("sibling", Position::Sibling),
    ];
}

/// One class of the lexicon, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    /// The class of this number; there are at most 64.
    pub(crate) fn from_number(number: usize) -> Option<Class> {
        u8::try_from(number).ok().filter(|number| *number < 64).map(Class)
    }
}

/// A set of classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Classes(u64);

impl Classes {
    pub(crate) fn insert(&mut self, class: Class) {
        self.0 |= 1 << class.0;
    }

    pub(crate) fn has(self, class: Class) -> bool {
        self.0 & (1 << class.0) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union of both sets.
    pub(crate) fn with(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }
}

/// A class of words that occurs in a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) position: Position,
    pub(crate) class: Class,
}

/// A location in a definition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<'d> {
    pub(crate) part: Part,
    /// The parameter, if the part is one or belongs to one.
    pub(crate) parameter: &'d str,
    /// The text to which `start` and `end` refer.
    pub(crate) text: &'d str,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// All facts about one definition.
#[derive(Debug, Default)]
pub(crate) struct Facts<'d> {
    seen: [Classes; Position::ALL.len()],
    places: Vec<(Position, Classes, Location<'d>)>,
}

impl<'d> Facts<'d> {
    /// Adds the classes found at a location.
    pub(crate) fn add(&mut self, position: Position, classes: Classes, place: Location<'d>) {
        let Some(seen) = self.seen.get_mut(position as usize) else { return };
        let both = seen.with(classes);
        // Only a new class needs a location; this also bounds the list.
        if both != *seen {
            *seen = both;
            self.places.push((position, classes, place));
        }
    }

    /// Adds the class with this name, found at a location.
    pub(crate) fn add_class(&mut self, position: Position, class: &str, place: Location<'d>) {
        if let Some(class) = LEXICON.class(class) {
            let mut classes = Classes::default();
            classes.insert(class);
            self.add(position, classes, place);
        }
    }

    /// All classes found in a position.
    pub(crate) fn classes(&self, position: Position) -> Classes {
        self.seen.get(position as usize).copied().unwrap_or_default()
    }

    pub(crate) fn has(&self, fact: Fact) -> bool {
        self.classes(fact.position).has(fact.class)
    }

    /// The first location of a fact.
    pub(crate) fn place(&self, fact: Fact) -> Option<Location<'d>> {
        let found = self
            .places
            .iter()
            .find(|(position, classes, _)| *position == fact.position && classes.has(fact.class));
        found.map(|(_, _, place)| *place)
    }
}
