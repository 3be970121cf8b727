//! Assessment: combines the evidence into the worst category that a rule supports.

use std::fmt;

use crate::{
    Category, Risk,
    definition::Definition,
    fact::{Facts, Location},
    finding::{self, Finding},
    observe::observe,
    reason::{Part, Reason, Spot},
    rules::{RULES, Rule},
    siblings::Siblings,
    signal::{self, Signal},
};

/// The maximum number of reasons; nobody reads more.
const MOST_REASONS: usize = 8;
/// The longest quotation, in bytes.
const LONGEST_QUOTE: usize = 200;
/// The confidence of a tool without any evidence.
const NOTHING_KNOWN: u8 = 35;

/// The classification of a tool, with the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    pub category: Category,
    pub risk: Risk,
    pub confidence: Confidence,
    /// The evidence, that for the category first.
    pub reasons: Vec<Reason>,
    pub signals: Vec<Signal>,
    pub findings: Vec<Finding>,
}

impl Assessment {
    /// Replaces the category by the one that a built-in server declares.
    #[must_use]
    pub fn with_declared_category(self, category: Category) -> Assessment {
        let quote = "sluicegate/category".to_owned();
        let at = Spot { part: Part::Hint, parameter: None, start: 0, end: quote.len(), quote };
        let text = "declared by the server, which is part of this gateway";
        Assessment {
            category,
            risk: Risk::from(category),
            confidence: Confidence(100),
            reasons: vec![Reason { category, text, at }],
            ..self
        }
    }
}

/// The confidence in a category: the share of such tools for which it is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Confidence(u8);

impl Confidence {
    /// In percent, 0 to 100.
    pub fn percent(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// Classifies a tool by its definition and its siblings.
pub fn classify<'d>(definition: &Definition<'d>, siblings: &Siblings<'d>) -> Assessment {
    let parameters = definition.parameters();
    let facts = observe(definition, &parameters, siblings);
    let hits = hits(&facts);
    let category = hits.iter().map(|hit| hit.rule.category).max().unwrap_or(Category::Other);
    Assessment {
        category,
        risk: Risk::from(category),
        confidence: confidence(category, &hits, definition.description.is_some()),
        reasons: reasons(category, &hits),
        signals: signal::find(definition, &parameters, &facts, category),
        findings: finding::find(definition, &parameters, siblings),
    }
}

/// A rule that applies, with the location of its evidence.
#[derive(Debug)]
struct Hit<'d> {
    rule: &'static Rule,
    place: Option<Location<'d>>,
}

fn hits<'d>(facts: &Facts<'d>) -> Vec<Hit<'d>> {
    let applying = RULES.iter().filter_map(|rule| Some((rule, rule.applies(facts)?)));
    applying.map(|(rule, fact)| Hit { rule, place: facts.place(fact) }).collect()
}

/// The best rule's confidence. It is raised if rules at other locations agree, and lowered if there
/// is no description or other evidence contradicts it.
fn confidence(category: Category, hits: &[Hit<'_>], has_description: bool) -> Confidence {
    let (agreeing, others): (Vec<&Hit<'_>>, Vec<&Hit<'_>>) =
        hits.iter().partition(|hit| hit.rule.category == category);
    let Some(best) = agreeing.iter().max_by_key(|hit| hit.rule.confidence) else {
        return Confidence(NOTHING_KNOWN);
    };
    let part = |hit: &Hit<'_>| hit.place.map(|place| place.part);
    let mut confidence = best.rule.confidence;
    if agreeing.iter().any(|hit| part(hit) != part(best)) {
        confidence += (99 - confidence) / 3;
    }
    if !others.is_empty() {
        confidence = confidence.saturating_sub(7);
    }
    if !has_description {
        confidence = confidence.saturating_sub(8);
    }
    Confidence(confidence)
}

fn reasons(category: Category, hits: &[Hit<'_>]) -> Vec<Reason> {
    let mut ordered: Vec<&Hit<'_>> = hits.iter().collect();
    ordered
        .sort_by_key(|hit| (hit.rule.category != category, std::cmp::Reverse(hit.rule.confidence)));
    let mut found: Vec<Reason> = Vec::new();
    for Hit { rule, place } in ordered {
        let Some(place) = place else { continue };
        // Several rules may have the same text for one part, which is one reason to a reader.
        let says_the_same = |reason: &Reason| {
            (reason.category, reason.text, reason.at.part) == (rule.category, rule.text, place.part)
        };
        if found.len() < MOST_REASONS && !found.iter().any(says_the_same) {
            found.push(Reason { category: rule.category, text: rule.text, at: Spot::from(*place) });
        }
    }
    found
}

impl From<Location<'_>> for Spot {
    fn from(place: Location<'_>) -> Spot {
        let (start, end) = (place.start as usize, place.end as usize);
        Spot {
            part: place.part,
            parameter: (!place.parameter.is_empty()).then(|| beginning(place.parameter)),
            start,
            end,
            quote: beginning(place.text.get(start..end).unwrap_or_default()),
        }
    }
}

/// A text, truncated to the maximum length.
fn beginning(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST_QUOTE)).unwrap_or_default().to_owned()
}
