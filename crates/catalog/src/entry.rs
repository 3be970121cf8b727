//! The catalogue's data about one server and one tool.

use sluice_classify::{Attack, Category, FindingKind, Risk, SignalKind};

use crate::{
    bits::{Findings, Signals},
    evidence::Evidence,
};

/// A server in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub(crate) id: i64,
    /// The row id of its first tool; the others follow consecutively.
    pub(crate) first: i64,
    pub slug: String,
    pub name: String,
    /// Where its definitions came from.
    pub source: String,
    pub standing: Standing,
    pub version: Option<String>,
    pub description: Option<String>,
    /// Its URLs and packages, from the registry's entry; JSON.
    pub about: Option<String>,
    /// The number of tools of each category; `None` if its tools are unknown.
    pub counts: Option<Counts>,
    pub findings: u32,
}

/// The origin of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Shipped with the program.
    Shipped,
    /// Imported by the user.
    Own,
}

impl Standing {
    /// The name used in output.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Shipped => "shipped",
            Standing::Own => "imported",
        }
    }
}

impl Server {
    /// The worst category of its tools.
    pub fn worst(&self) -> Option<Category> {
        self.counts.and_then(Counts::worst)
    }

    /// The number of its tools, if known.
    pub fn tools(&self) -> Option<u32> {
        self.counts.map(Counts::total)
    }
}

/// The number of tools of each category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts(pub(crate) [u32; 6]);

impl Counts {
    pub fn of(self, category: Category) -> u32 {
        let place = Category::ALL.iter().position(|other| *other == category);
        place.and_then(|place| self.0.get(place)).copied().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, category: Category) {
        let place = Category::ALL.iter().position(|other| *other == category);
        if let Some(count) = place.and_then(|place| self.0.get_mut(place)) {
            *count = count.saturating_add(1);
        }
    }

    pub fn total(self) -> u32 {
        self.0.iter().sum()
    }

    /// The worst category that has any tools.
    pub fn worst(self) -> Option<Category> {
        Category::ALL.into_iter().rev().find(|category| self.of(*category) > 0)
    }

    pub(crate) fn text(self) -> String {
        self.0.map(|count| count.to_string()).join(" ")
    }

    pub(crate) fn read(text: &str) -> Counts {
        let mut counts = Counts::default();
        for (to, from) in counts.0.iter_mut().zip(text.split(' ')) {
            *to = from.parse().unwrap_or_default();
        }
        counts
    }
}

/// The properties of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    pub category: Category,
    /// In percent.
    pub confidence: u8,
    pub signals: Signals,
    pub findings: Findings,
}

impl Traits {
    pub fn risk(&self) -> Risk {
        Risk::from(self.category)
    }

    /// The attack patterns that fit, the closest first.
    pub fn attacks(&self) -> Vec<&'static Attack> {
        let signals: Vec<SignalKind> = self.signals.kinds().collect();
        let findings: Vec<FindingKind> = self.findings.kinds().collect();
        Attack::bearing_on(self.category, &signals, &findings)
    }
}

/// A tool in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub name: String,
    /// The author's description; only stored for imported tools.
    pub description: Option<String>,
    pub traits: Traits,
    pub evidence: Vec<Evidence>,
}
