//! Cases as data: each file under `cases/` shows one behaviour of classification.
//!
//! A case has `tools`, each a definition as in `tools/list` beside what is
//! `expect`ed of it; they are each other's siblings, on a server that `server`
//! names. `reason` is one that must be given, `signals` and `findings` are all.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use sluice_classify::{Assessment, Definition, FindingKind, Siblings, SignalKind, Spot, classify};
use sluice_wire::json::{Bounds, Document};

/// Fewer files than this means that cases were lost, not that all is well.
const AT_LEAST: usize = 40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    server: String,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    tool: Value,
    expect: Option<Expected>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    category: Option<String>,
    risk: Option<String>,
    reason: Option<Evidence>,
    signals: Option<Vec<String>>,
    findings: Option<Vec<Evidence>>,
    most_confidence: Option<u8>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Evidence {
    kind: Option<String>,
    part: String,
    parameter: Option<String>,
    quote: Option<String>,
    start: Option<usize>,
}

impl Evidence {
    fn fits(&self, spot: &Spot) -> bool {
        self.part == spot.part.name()
            && self.parameter == spot.parameter
            && self.quote.as_ref().is_none_or(|quote| *quote == spot.quote)
            && self.start.is_none_or(|start| start == spot.start)
    }
}

#[test]
fn every_case_holds() {
    let files = files();
    assert!(files.len() >= AT_LEAST, "{} cases", files.len());
    let mut wrong = Vec::new();
    for file in files {
        for (tool, assessment) in assessed(&file) {
            let name = tool.tool["name"].to_string();
            let Some(expected) = tool.expect else { continue };
            for problem in problems(&expected, &assessment) {
                wrong.push(format!("{}: {name}: {problem}", shown(&file)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a case does not show, nobody has thought about.
#[test]
fn every_reason_signal_and_finding_has_a_case() {
    let mut reasons = BTreeSet::new();
    let mut signals = BTreeSet::new();
    let mut findings = BTreeSet::new();
    for (_, assessment) in files().iter().flat_map(|file| assessed(file)) {
        reasons.extend(assessment.reasons.iter().map(|one| (one.category.name(), one.text)));
        signals.extend(assessment.signals.iter().map(|one| one.kind));
        findings.extend(assessment.findings.iter().map(|one| one.kind));
    }
    let rules = include_str!("../../src/data/rules.txt");
    let rules = rules.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let missing: Vec<(&str, &str)> = rules
        .map(|line| {
            let (head, text) = line.split_once(" -- ").unwrap();
            (head.split(' ').next().unwrap(), text)
        })
        .filter(|rule| !reasons.contains(rule))
        .collect();
    assert!(missing.is_empty(), "rules without a case: {missing:#?}");
    assert_eq!(signals, SignalKind::ALL.into_iter().collect());
    assert_eq!(findings, FindingKind::ALL.into_iter().collect());
}

#[test]
fn the_same_definition_always_gives_the_same_answer() {
    for file in files() {
        let first: Vec<Assessment> = assessed(&file).into_iter().map(|(_, one)| one).collect();
        let again: Vec<Assessment> = assessed(&file).into_iter().map(|(_, one)| one).collect();
        assert_eq!(first, again, "{}", shown(&file));
    }
}

/// Hints may make a tool worse, never better.
#[test]
fn no_hint_lowers_a_category() {
    for file in files() {
        let text = fs::read_to_string(&file).unwrap();
        let case: Case = serde_saphyr::from_str(&text).unwrap();
        for Tool { mut tool, .. } in case.tools {
            let hints = tool.as_object_mut().unwrap().remove("annotations");
            let plain = alone(&tool);
            for hint in ["readOnlyHint", "idempotentHint", "openWorldHint", "destructiveHint"] {
                for value in [true, false] {
                    tool["annotations"] = serde_json::json!({ hint: value });
                    assert!(alone(&tool) >= plain, "{hint} {value} lowers {tool} ({hints:?})");
                }
            }
        }
    }
}

fn alone(tool: &Value) -> sluice_classify::Category {
    let document = Document::parse(tool.to_string(), &Bounds::default()).unwrap();
    let definition = Definition::from_tool(document.root()).unwrap();
    classify(&definition, &Siblings::default()).category
}

fn assessed(file: &Path) -> Vec<(Tool, Assessment)> {
    let text = fs::read_to_string(file).unwrap();
    let case: Case =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", shown(file)));
    let documents: Vec<Document> = case
        .tools
        .iter()
        .map(|tool| Document::parse(tool.tool.to_string(), &Bounds::default()).unwrap())
        .collect();
    let definitions: Vec<Definition<'_>> =
        documents.iter().map(|one| Definition::from_tool(one.root()).unwrap()).collect();
    let siblings = Siblings::new(&case.server, &definitions);
    let assessments: Vec<Assessment> =
        definitions.iter().map(|definition| classify(definition, &siblings)).collect();
    case.tools.into_iter().zip(assessments).collect()
}

fn problems(expected: &Expected, assessment: &Assessment) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut compare = |what: &str, wanted: &Option<String>, found: &str| {
        if wanted.as_ref().is_some_and(|wanted| wanted != found) {
            wrong.push(format!("{what} is {found} by {:#?}", assessment.reasons));
        }
    };
    compare("category", &expected.category, assessment.category.name());
    compare("risk", &expected.risk, assessment.risk.name());
    if let Some(reason) = &expected.reason
        && !assessment.reasons.iter().any(|one| reason.fits(&one.at))
    {
        wrong.push(format!("no reason {reason:?} in {:#?}", assessment.reasons));
    }
    if let Some(signals) = &expected.signals {
        let found: Vec<&str> = assessment.signals.iter().map(|one| one.kind.name()).collect();
        if *signals != found {
            wrong.push(format!("signals are {found:?}"));
        }
    }
    if let Some(findings) = &expected.findings {
        let fits = |(wanted, found): (&Evidence, &sluice_classify::Finding)| {
            wanted.fits(&found.at) && wanted.kind.as_deref() == Some(found.kind.name())
        };
        let same = findings.len() == assessment.findings.len()
            && findings.iter().zip(&assessment.findings).all(fits);
        if !same {
            wrong.push(format!("findings are {:#?}", assessment.findings));
        }
    }
    if expected.most_confidence.is_some_and(|most| assessment.confidence.percent() > most) {
        wrong.push(format!("confidence is {}", assessment.confidence));
    }
    wrong
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut found = Vec::new();
    for group in fs::read_dir(folder).unwrap() {
        for file in fs::read_dir(group.unwrap().path()).unwrap() {
            found.push(file.unwrap().path());
        }
    }
    found.sort();
    found
}

fn shown(file: &Path) -> String {
    file.file_stem().unwrap().to_string_lossy().into_owned()
}
