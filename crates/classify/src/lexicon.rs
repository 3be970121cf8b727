//! The word list of `data/lexicon.txt`, loaded once and looked up by class.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::LazyLock,
};

use aho_corasick::{AhoCorasick, MatchKind};

use crate::fact::{Class, Classes, Fact, Position};

/// The whole lexicon.
pub(crate) static LEXICON: LazyLock<Lexicon> =
    LazyLock::new(|| Lexicon::read(include_str!("data/lexicon.txt")));

/// A hash table of words. The words are ours, so nobody can choose them to collide.
type Table<T> = HashMap<&'static str, T, BuildHasherDefault<Fnv>>;

#[derive(Debug)]
pub(crate) struct Lexicon {
    words: Table<Meaning>,
    parameters: Table<Classes>,
    /// Suffixes, for words that are not listed.
    endings: Vec<(&'static str, Class)>,
    /// `None` only if the automaton could not be built, which a test rules out.
    phrases: Option<AhoCorasick>,
    /// The fact that each phrase stands for, in the order of `phrases`.
    phrase_facts: Vec<Fact>,
    /// The names of classes, in the order of their numbers.
    classes: Vec<&'static str>,
    /// Lines that could not be parsed; a test checks that there are none.
    #[cfg(test)]
    wrong: Vec<&'static str>,
}

/// The possible meanings of one word.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Meaning {
    pub(crate) verb: Classes,
    pub(crate) noun: Classes,
    /// Whether the verb is just as often a noun.
    pub(crate) is_weak: bool,
    /// Whether the word precedes verbs and carries no meaning.
    pub(crate) is_skipped: bool,
}

impl Lexicon {
    /// The meanings of a word.
    pub(crate) fn word(&self, word: &str) -> Option<Meaning> {
        self.words.get(word).copied()
    }

    /// The meanings of an unknown word by its suffix.
    pub(crate) fn by_ending(&self, word: &str) -> Option<Meaning> {
        let (_, class) = self.endings.iter().find(|(ending, _)| word.ends_with(ending))?;
        let mut noun = Classes::default();
        noun.insert(*class);
        Some(Meaning { noun, ..Meaning::default() })
    }

    /// The classes of a word in a parameter's name.
    pub(crate) fn parameter(&self, word: &str) -> Option<Classes> {
        self.parameters.get(word).copied()
    }

    /// The phrases in a text with their positions.
    pub(crate) fn phrases<'t>(
        &'t self,
        text: &'t str,
    ) -> impl Iterator<Item = (Fact, usize, usize)> + 't {
        let found = self.phrases.iter().flat_map(move |phrases| phrases.find_iter(text));
        found.filter_map(|found| {
            let fact = self.phrase_facts.get(found.pattern().as_usize())?;
            Some((*fact, found.start(), found.end()))
        })
    }

    /// The class with this name.
    pub(crate) fn class(&self, name: &str) -> Option<Class> {
        let number = self.classes.iter().position(|known| *known == name)?;
        Class::from_number(number)
    }

    fn read(text: &'static str) -> Lexicon {
        let mut reading = Reading::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if reading.line(line).is_none() {
                reading.wrong.push(line);
            }
        }
        let phrases = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(&reading.phrases);
        Lexicon {
            words: reading.words,
            parameters: reading.parameters,
            endings: reading.endings,
            phrases: phrases.ok(),
            phrase_facts: reading.phrase_facts,
            classes: reading.classes,
            #[cfg(test)]
            wrong: reading.wrong,
        }
    }
}

#[derive(Default)]
struct Reading {
    words: Table<Meaning>,
    parameters: Table<Classes>,
    endings: Vec<(&'static str, Class)>,
    phrases: Vec<&'static str>,
    phrase_facts: Vec<Fact>,
    classes: Vec<&'static str>,
    wrong: Vec<&'static str>,
}

impl Reading {
    fn line(&mut self, line: &'static str) -> Option<()> {
        let (head, words) = line.split_once(':')?;
        let mut head = head.split(' ');
        let kind = head.next()?;
        let class_name = head.next();
        let is_weak = head.next() == Some("noun");
        if kind == "skip" {
            for word in words.split_whitespace() {
                self.words.entry(word).or_default().is_skipped = true;
            }
            return Some(());
        }
        let class_name = class_name?;
        if kind == "phrase" {
            return self.phrase_line(class_name, words);
        }
        let class = self.class(class_name)?;
        for word in words.split_whitespace() {
            match kind {
                "verb" => {
                    let meaning = self.words.entry(word).or_default();
                    meaning.verb.insert(class);
                    meaning.is_weak |= is_weak;
                }
                "noun" => self.words.entry(word).or_default().noun.insert(class),
                "ending" => self.endings.push((word, class)),
                "param" => self.parameters.entry(word).or_default().insert(class),
                _ => return None,
            }
        }
        Some(())
    }

    fn phrase_line(&mut self, class_name: &'static str, phrases: &'static str) -> Option<()> {
        let (position, class_name) = match class_name.strip_prefix("says.") {
            Some(class_name) => (Position::Says, class_name),
            None => (Position::Text, class_name),
        };
        let fact = Fact { position, class: self.class(class_name)? };
        for phrase in phrases.split('|').map(str::trim) {
            self.phrases.push(phrase);
            self.phrase_facts.push(fact);
        }
        Some(())
    }

    fn class(&mut self, name: &'static str) -> Option<Class> {
        let known = self.classes.iter().position(|known| *known == name);
        let number = known.unwrap_or_else(|| {
            self.classes.push(name);
            self.classes.len() - 1
        });
        Class::from_number(number)
    }
}

/// FNV-1a hashes short words faster than the default hasher.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::LEXICON;

    #[test]
    fn every_line_of_the_lexicon_is_valid() {
        assert!(LEXICON.wrong.is_empty(), "{:#?}", LEXICON.wrong);
        assert!(LEXICON.phrases.is_some());
    }

    #[test]
    fn words_of_the_lexicon_are_in_the_splitters_form() {
        for word in LEXICON.words.keys().chain(LEXICON.parameters.keys()) {
            assert!(word.chars().all(char::is_alphanumeric), "`{word}` can never be found");
            assert_eq!(*word, word.to_lowercase());
        }
    }
}
