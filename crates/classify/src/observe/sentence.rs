//! The verbs and nouns of a description's first sentence.

use crate::{
    fact::{Classes, Facts, Location, Position},
    lexicon::{LEXICON, Meaning},
    reason::Part,
    words::{self, Gap, Word},
};

/// Words of a sentence that are looked at.
const MOST_WORDS: usize = 48;
/// Words that may stand before its verb, those that say nothing not counted.
const LATEST_VERB: usize = 6;

/// How far the sentence has been understood.
#[derive(Debug, Default)]
struct Reading {
    has_verb: bool,
    /// Words before the verb that are not known to say nothing.
    strangers: usize,
    /// The word before was one after which a noun comes.
    after_article: bool,
    /// The word before was `and`, `or`.
    is_joined: bool,
    /// A word that could be the verb, should there be no better one.
    spare: Option<(Word, Classes)>,
}

pub(super) fn observe<'d>(text: &'d str, part: Part, facts: &mut Facts<'d>) {
    let at = |word: Word| Location { part, parameter: "", text, start: word.start, end: word.end };
    let mut reading = Reading::default();
    let mut words = words::of_sentence(text, MOST_WORDS).peekable();
    while let Some((gap, word)) = words.next() {
        let known = words::stems(word.as_str(), |form| LEXICON.word(form)).unwrap_or_default();
        if words.peek().is_some_and(|(gap, _)| *gap == Gap::Colon) && !reading.has_verb {
            // A heading, as in `WORKFLOW: …`, is no sentence.
            reading = Reading::default();
            continue;
        }
        if let Some(position) = reading.verb(gap, word, known) {
            facts.add(position, known.verb, at(word));
        } else if !known.noun.is_empty() {
            facts.add(Position::Topic, known.noun, at(word));
        }
        reading.step(word, known);
    }
    if let (false, Some((word, classes))) = (reading.has_verb, reading.spare) {
        facts.add(Position::Says, classes, at(word));
    }
}

impl Reading {
    /// Whether a word is a verb here, and which.
    fn verb(&mut self, gap: Gap, word: Word, known: Meaning) -> Option<Position> {
        if known.verb.is_empty() || (known.is_skipped && !self.has_verb) {
            return None;
        }
        if self.has_verb {
            let follows = self.is_joined || gap == Gap::Enumeration;
            return follows.then_some(Position::Also);
        }
        if self.after_article || (known.is_weak && self.strangers > 0) {
            self.spare.get_or_insert((word, known.verb));
            return None;
        }
        if self.strangers > LATEST_VERB {
            return None;
        }
        self.has_verb = true;
        Some(Position::Says)
    }

    fn step(&mut self, word: Word, known: Meaning) {
        let word = word.as_str();
        self.is_joined = matches!(word, "and" | "or" | "then" | "y" | "e" | "o" | "et" | "und");
        self.after_article = matches!(
            word,
            "a" | "an"
                | "the"
                | "of"
                | "for"
                | "from"
                | "in"
                | "on"
                | "by"
                | "with"
                | "your"
                | "its"
        );
        self.strangers += usize::from(!known.is_skipped && !self.has_verb);
    }
}
