//! The context of a tool: its server's name and the server's other tools.

use crate::{
    definition::Definition,
    fact::{Facts, Location, Position},
    finding::skeleton,
    lexicon::LEXICON,
    observe::Lead,
    reason::Part,
    words::{self, place},
};

/// How many tools of a server are examined for its conventions.
const MOST_TOOLS: usize = 1000;

/// The tools of one server, examined once for all of them.
#[derive(Debug, Clone, Default)]
pub struct Siblings<'d> {
    server: &'d str,
    /// The skeletons of the tools' names, sorted.
    looks: Vec<(String, &'d str)>,
    mostly_read: bool,
}

impl<'d> Siblings<'d> {
    /// The tools of the server with this name, which is empty if unknown.
    pub fn new(server: &'d str, tools: &[Definition<'d>]) -> Siblings<'d> {
        let names: Vec<&str> = tools.iter().take(MOST_TOOLS).map(|tool| tool.name).collect();
        let mut looks: Vec<(String, &str)> =
            names.iter().map(|name| (skeleton(name), *name)).collect();
        looks.sort_unstable();
        let read = LEXICON.class("read");
        let leads: Vec<Lead> = names.iter().filter_map(|name| Lead::of(name)).collect();
        let readers = leads.iter().filter(|lead| read.is_some_and(|read| lead.classes.has(read)));
        let mostly_read = leads.len() >= 3 && readers.count() * 5 >= leads.len() * 4;
        Siblings { server, looks, mostly_read }
    }

    /// Another tool whose name looks the same.
    pub(crate) fn looking_like(&self, looks: &str, name: &str) -> Option<&'d str> {
        let first = self.looks.partition_point(|(look, _)| look.as_str() < looks);
        let alike = self.looks.get(first..)?.iter().take_while(|(look, _)| look == looks);
        alike.map(|(_, other)| *other).find(|other| *other != name)
    }

    pub(crate) fn observe(&self, facts: &mut Facts<'d>) {
        for word in words::of_name(self.server) {
            let known = words::stems(word.as_str(), |form| LEXICON.word(form)).unwrap_or_default();
            let classes = known.noun.with(known.verb);
            if !classes.is_empty() {
                let (start, end) = (word.start, word.end);
                let at =
                    Location { part: Part::Server, parameter: "", text: self.server, start, end };
                facts.add(Position::Server, classes, at);
            }
        }
        if self.mostly_read {
            let text = "most of them read";
            let at = Location {
                part: Part::Siblings,
                parameter: "",
                text,
                start: 0,
                end: place(text.len()),
            };
            facts.add_class(Position::Sibling, "read", at);
        }
    }
}
