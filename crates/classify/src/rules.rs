//! The rules of `data/rules.txt`: which category follows from which facts.

use std::sync::LazyLock;

use crate::{
    Category,
    fact::{Fact, Facts, Position},
    lexicon::LEXICON,
};

/// All rules, in the order of the file.
pub(crate) static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let lines = lines(include_str!("data/rules.txt"));
    lines.filter_map(Rule::read).collect()
});

/// One rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) category: Category,
    /// The share of tools for which it is right, in percent.
    pub(crate) confidence: u8,
    conditions: Vec<Condition>,
    /// The reason in words, for people.
    pub(crate) text: &'static str,
}

/// A condition: one of these facts must be present, or none of them.
#[derive(Debug)]
struct Condition {
    facts: Vec<Fact>,
    is_wanted: bool,
}

impl Rule {
    /// The fact that supports the rule, if it applies.
    pub(crate) fn applies(&self, facts: &Facts<'_>) -> Option<Fact> {
        let holds = |condition: &Condition| {
            condition.facts.iter().any(|fact| facts.has(*fact)) == condition.is_wanted
        };
        if !self.conditions.iter().all(holds) {
            return None;
        }
        let first = self.conditions.first()?;
        first.facts.iter().copied().find(|fact| facts.has(*fact))
    }

    /// Parses `category confidence condition… -- text`.
    fn read(line: &'static str) -> Option<Rule> {
        let (head, text) = line.split_once(" -- ")?;
        let mut words = head.split_whitespace();
        let category = Category::from_name(words.next()?)?;
        let confidence = words.next()?.parse().ok()?;
        let conditions: Option<Vec<Condition>> = words.map(Condition::read).collect();
        Some(Rule { category, confidence, conditions: conditions?, text: text.trim() })
    }
}

impl Condition {
    /// Parses `position.class|position.class`, with a leading `!` to negate it.
    fn read(word: &str) -> Option<Condition> {
        let (is_wanted, facts) = match word.strip_prefix('!') {
            Some(facts) => (false, facts),
            None => (true, word),
        };
        let facts: Option<Vec<Fact>> = facts.split('|').map(fact).collect();
        Some(Condition { facts: facts?, is_wanted })
    }
}

fn fact(word: &str) -> Option<Fact> {
    let (position, class) = word.split_once('.')?;
    let (_, position) = Position::ALL.into_iter().find(|(name, _)| *name == position)?;
    Some(Fact { position, class: LEXICON.class(class)? })
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::{RULES, Rule, lines};

    #[test]
    fn every_rule_is_valid() {
        for line in lines(include_str!("data/rules.txt")) {
            let rule = Rule::read(line);
            let rule = rule.unwrap_or_else(|| panic!("not understood: {line}"));
            assert!(rule.confidence <= 99, "{line}");
            assert!(
                rule.conditions.first().is_some_and(|first| first.is_wanted),
                "a rule stands on what it names first: {line}"
            );
        }
        assert!(!RULES.is_empty());
    }
}
