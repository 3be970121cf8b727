//! Attack patterns: known attacks on each kind of tool.
//!
//! The patterns are in `catalog/attacks.toml`, which is embedded in the binary. They
//! are read here because a tool is linked to them by its category, signals and
//! findings, which are this crate's vocabulary.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{Assessment, Category, FindingKind, SignalKind};

/// One way to attack an agent through its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attack {
    pub id: String,
    pub title: String,
    /// What happens, in our words.
    pub text: String,
    /// What stops it in Sluicegate.
    pub stops: String,
    /// Known incidents.
    pub incidents: Vec<String>,
    pub cves: Vec<String>,
    /// Ids of the OWASP MCP Top 10.
    pub owasp: Vec<String>,
    /// Ids of MITRE ATLAS.
    pub atlas: Vec<String>,
    /// Ids of SAFE-MCP.
    pub safe_mcp: Vec<String>,
    bears_on: BearsOn,
}

/// The tools that a pattern applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BearsOn {
    any: bool,
    categories: Vec<Category>,
    /// If any are given, a tool must have one of them.
    signals: Vec<SignalKind>,
    findings: Vec<FindingKind>,
}

/// All patterns, in the order of their file.
pub fn attacks() -> &'static [Attack] {
    static ATTACKS: LazyLock<Vec<Attack>> =
        LazyLock::new(|| read(include_str!("../../../catalog/attacks.toml")).unwrap_or_default());
    &ATTACKS
}

impl Attack {
    /// Whether it applies to every tool.
    pub fn is_general(&self) -> bool {
        self.bears_on.any
    }

    /// The patterns that fit a tool: those for its findings first, those that fit every tool last.
    pub fn fitting(assessment: &Assessment) -> Vec<&'static Attack> {
        let signals: Vec<SignalKind> = assessment.signals.iter().map(|one| one.kind).collect();
        let findings: Vec<FindingKind> = assessment.findings.iter().map(|one| one.kind).collect();
        Attack::bearing_on(assessment.category, &signals, &findings)
    }

    /// The patterns for a tool of which only these properties are known.
    pub fn bearing_on(
        category: Category,
        signals: &[SignalKind],
        findings: &[FindingKind],
    ) -> Vec<&'static Attack> {
        let closeness = |attack: &Attack| attack.bears_on.closeness(category, signals, findings);
        let mut found: Vec<(Closeness, &Attack)> =
            attacks().iter().filter_map(|attack| Some((closeness(attack)?, attack))).collect();
        found.sort_by_key(|(closeness, _)| *closeness);
        found.into_iter().map(|(_, attack)| attack).collect()
    }
}

/// How closely a pattern matches a tool, the closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Closeness {
    Finding,
    Signal,
    Category,
    Any,
}

impl BearsOn {
    fn closeness(
        &self,
        category: Category,
        signals: &[SignalKind],
        findings: &[FindingKind],
    ) -> Option<Closeness> {
        let has_finding = findings.iter().any(|kind| self.findings.contains(kind));
        let has_signal = signals.iter().any(|kind| self.signals.contains(kind));
        let has_category = self.categories.contains(&category);
        if has_finding {
            Some(Closeness::Finding)
        } else if has_category && has_signal {
            Some(Closeness::Signal)
        } else if has_category && self.signals.is_empty() {
            Some(Closeness::Category)
        } else {
            self.any.then_some(Closeness::Any)
        }
    }
}

/// The structure of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    pattern: Vec<Written>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    title: String,
    text: String,
    stops: String,
    #[serde(default)]
    any: bool,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    signals: Vec<String>,
    #[serde(default)]
    findings: Vec<String>,
    #[serde(default)]
    incidents: Vec<String>,
    #[serde(default)]
    cves: Vec<String>,
    owasp: Vec<String>,
    atlas: Vec<String>,
    safe_mcp: Vec<String>,
}

/// Parses the file; `None` if any of it is invalid, which a test rules out.
fn read(text: &str) -> Option<Vec<Attack>> {
    let file: File = toml::from_str(text).ok()?;
    file.pattern.into_iter().map(Written::resolve).collect()
}

impl Written {
    fn resolve(self) -> Option<Attack> {
        let categories = self.categories.iter().map(|name| Category::from_name(name)).collect();
        let signals = self.signals.iter().map(|name| SignalKind::from_name(name)).collect();
        let findings = self.findings.iter().map(|name| FindingKind::from_name(name)).collect();
        let (categories, signals, findings): (Option<_>, Option<_>, Option<_>) =
            (categories, signals, findings);
        Some(Attack {
            id: self.id,
            title: self.title,
            text: self.text,
            stops: self.stops,
            incidents: self.incidents,
            cves: self.cves,
            owasp: self.owasp,
            atlas: self.atlas,
            safe_mcp: self.safe_mcp,
            bears_on: BearsOn {
                any: self.any,
                categories: categories?,
                signals: signals?,
                findings: findings?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{attacks, read};

    #[test]
    fn every_attack_pattern_is_valid_and_applies_to_some_tool() {
        assert!(attacks().len() >= 30);
        let ids: BTreeSet<&str> = attacks().iter().map(|attack| attack.id.as_str()).collect();
        assert_eq!(ids.len(), attacks().len(), "each id once");
        for attack in attacks() {
            let on = &attack.bears_on;
            let bears = on.any || !on.categories.is_empty() || !on.findings.is_empty();
            assert!(bears, "{} bears on nothing", attack.id);
            assert!(on.signals.is_empty() || !on.categories.is_empty(), "{}", attack.id);
        }
    }

    #[test]
    fn ids_have_the_form_of_their_catalogues() {
        let is = |id: &str, prefix: &str| {
            let rest = id.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || ".-".contains(c)))
        };
        for attack in attacks() {
            assert!(attack.owasp.iter().all(|id| is(id, "MCP")), "{attack:?}");
            assert!(attack.atlas.iter().all(|id| is(id, "AML.T")), "{attack:?}");
            assert!(attack.safe_mcp.iter().all(|id| is(id, "SAFE-T")), "{attack:?}");
            assert!(attack.cves.iter().all(|id| is(id, "CVE-")), "{attack:?}");
        }
    }

    #[test]
    fn an_attack_file_with_an_unknown_word_is_refused() {
        let pattern = |category: &str| {
            format!(
                "[[pattern]]\nid = 'a'\ntitle = 'a'\ntext = 'a'\nstops = 'a'\n\
                 categories = ['{category}']\nowasp = []\natlas = []\nsafe_mcp = []\n"
            )
        };
        assert!(read(&pattern("read")).is_some());
        assert!(read(&pattern("reads")).is_none());
        assert!(read(&(pattern("read") + "extra = 1\n")).is_none());
    }
}
