//! The verb and the nouns of a tool's name.

use crate::{
    fact::{Classes, Facts, Location, Position},
    lexicon::{LEXICON, Meaning},
    reason::Part,
    words::{self, Word},
};

/// The main verb of a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lead {
    pub(crate) word: Word,
    pub(crate) classes: Classes,
    /// Whether it may also be a noun.
    is_weak: bool,
}

impl Lead {
    /// The verb of a name, if it has one.
    pub(crate) fn of(name: &str) -> Option<Lead> {
        lead(&read(name)).map(|(_, lead)| lead)
    }
}

/// A word of a name, with its possible meanings there.
#[derive(Debug, Clone, Copy)]
struct Token {
    word: Word,
    meaning: Meaning,
}

pub(super) fn observe<'d>(name: &'d str, facts: &mut Facts<'d>) {
    let tokens = read(name);
    let at = |word: Word| Location {
        part: Part::Name,
        parameter: "",
        text: name,
        start: word.start,
        end: word.end,
    };
    let lead = lead(&tokens);
    if let Some((_, lead)) = lead {
        let position = if lead.is_weak { Position::Maybe } else { Position::Lead };
        facts.add(position, lead.classes, at(lead.word));
    }
    let mut is_joined = false;
    for (index, token) in tokens.iter().enumerate() {
        let is_lead = lead.is_some_and(|(lead, _)| lead == index);
        if is_joined && !token.meaning.verb.is_empty() {
            facts.add(Position::And, token.meaning.verb, at(token.word));
        }
        is_joined = matches!(token.word.as_str(), "and" | "or" | "then");
        if !is_lead && !token.meaning.noun.is_empty() {
            facts.add(Position::Name, token.meaning.noun, at(token.word));
        }
    }
    if let Some(last) = tokens.last().filter(|last| !last.meaning.noun.is_empty()) {
        facts.add(Position::Ends, last.meaning.noun, at(last.word));
    }
}

fn read(name: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> =
        words::of_name(name).map(|word| Token { word, meaning: meaning(word.as_str()) }).collect();
    for index in 1..tokens.len() {
        let Some(token) = tokens.get(index) else { continue };
        let is_request = token.word.as_str().starts_with("request");
        let is_verb = !token.meaning.verb.is_empty();
        let Some(before) = tokens.get_mut(index - 1) else { continue };
        // `pull` and `merge` before `request`, and `compose` before a verb, are parts of a noun
        // here, not verbs.
        let is_thing = match before.word.as_str() {
            "pull" | "merge" => is_request,
            "compose" => is_verb,
            _ => false,
        };
        if is_thing {
            before.meaning.verb = Classes::default();
        }
    }
    tokens
}

/// The meaning of a word in a name. Names are imperative: `runs` is not a verb there, `running` may
/// be.
fn meaning(word: &str) -> Meaning {
    if let Some(known) = LEXICON.word(word) {
        return known;
    }
    let stem = words::stems(word, |form| LEXICON.word(form));
    let stem = stem.or_else(|| LEXICON.by_ending(word)).unwrap_or_default();
    if is_gerund(word) {
        return Meaning { is_weak: true, ..stem };
    }
    Meaning { verb: Classes::default(), ..stem }
}

fn is_gerund(word: &str) -> bool {
    word.ends_with("ing")
}

/// The main verb: the first one, unless it may be a noun and there is an unambiguous verb.
fn lead(tokens: &[Token]) -> Option<(usize, Lead)> {
    let verbs = || tokens.iter().enumerate().filter(|(_, token)| !token.meaning.verb.is_empty());
    let Some((first, first_token)) = verbs().next() else {
        return doer(tokens).or_else(|| conversion(tokens));
    };
    let mut chosen = (first, first_token);
    // A product's name may start with a harmless verb, before the main verb.
    if has(first_token.meaning, "other")
        && let Some(next) = tokens.get(first + 1)
        && !next.meaning.is_weak
        && ["destroy", "pay", "run"].iter().any(|class| has(next.meaning, class))
    {
        chosen = (first + 1, next);
    }
    if first_token.meaning.is_weak
        && let Some((index, token)) = verbs().find(|(_, token)| !token.meaning.is_weak)
    {
        let ends_name = index + 1 == tokens.len();
        // A verb may name the objects of a list or search, as in `list_leave_requests`; if `list`
        // is the object, as in `list_clear`, the verb follows directly.
        let is_thing = !is_gerund(first_token.word.as_str());
        let yields = if has(first_token.meaning, "read") && is_thing {
            ends_name && index == first + 1
        } else {
            first > 0 || ends_name
        };
        if yields {
            chosen = (index, token);
        }
    }
    let (index, token) = chosen;
    let Meaning { verb: classes, is_weak, .. } = token.meaning;
    Some((index, Lead { word: token.word, classes, is_weak }))
}

fn has(meaning: Meaning, class: &str) -> bool {
    LEXICON.class(class).is_some_and(|class| meaning.verb.has(class))
}

/// A name without a verb may describe a conversion, such as `csv_to_json`.
fn conversion(tokens: &[Token]) -> Option<(usize, Lead)> {
    let index = tokens.iter().position(|token| token.word.as_str() == "to")?;
    let is_between = index > 0 && index + 1 < tokens.len();
    let mut classes = Classes::default();
    classes.insert(LEXICON.class("other")?);
    let word = tokens.get(index)?.word;
    is_between.then_some((index, Lead { word, classes, is_weak: true }))
}

/// A name without a verb may end with an agent noun, such as `reader`.
fn doer(tokens: &[Token]) -> Option<(usize, Lead)> {
    let index = tokens.len().checked_sub(1)?;
    let Token { word, meaning } = tokens.get(index)?;
    if !meaning.noun.is_empty() {
        return None;
    }
    let stem = word.as_str().strip_suffix("er").or_else(|| word.as_str().strip_suffix("or"))?;
    let classes = words::bare_or_with_e(stem, |form| LEXICON.word(form))?.verb;
    (!classes.is_empty()).then_some((index, Lead { word: *word, classes, is_weak: true }))
}
