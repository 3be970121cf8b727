//! The verbs and nouns of a description's first sentence.

use crate::{
    fact::{Classes, Facts, Location, Position},
    lexicon::{LEXICON, Meaning},
    reason::Part,
    words::{self, Gap, Word},
};

/// The maximum number of words examined in a sentence.
const MOST_WORDS: usize = 48;
/// The maximum number of words before its verb, not counting words without meaning.
const LATEST_VERB: usize = 6;

/// The state of parsing a sentence.
#[derive(Debug, Default)]
struct Reading {
    has_verb: bool,
    /// The number of words before the verb that carry meaning.
    strangers: usize,
    /// Whether the previous word precedes a noun.
    after_article: bool,
    /// Whether the previous word was `and` or `or`.
    is_joined: bool,
    /// A candidate for the verb, if there is no better one.
    spare: Option<(Word, Classes)>,
}

pub(super) fn observe<'d>(text: &'d str, part: Part, facts: &mut Facts<'d>) {
    let at = |word: Word| Location { part, parameter: "", text, start: word.start, end: word.end };
    let mut reading = Reading::default();
    let mut words = words::of_sentence(text, MOST_WORDS).peekable();
    while let Some((gap, word)) = words.next() {
        let known = words::stems(word.as_str(), |form| LEXICON.word(form)).unwrap_or_default();
        if words.peek().is_some_and(|(gap, _)| *gap == Gap::Colon) && !reading.has_verb {
            // A heading, as in `WORKFLOW: …`, is not part of the sentence.
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
    /// Whether a word is a verb here, and in which position.
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
