//! The output line of one tool.

use serde::Serialize;
use sluice_classify::{Assessment, Finding, Reason, Signal, Spot};

use super::definitions::Row;

#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    server: &'a str,
    tool: &'a str,
    category: &'static str,
    risk: &'static str,
    confidence: f64,
    reasons: Vec<Evidence<'a>>,
    signals: Vec<Evidence<'a>>,
    findings: Vec<Evidence<'a>>,
}

/// One piece of evidence, and its position.
#[derive(Debug, Serialize)]
struct Evidence<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    part: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<&'a str>,
    /// Byte offsets in the text of the part.
    start: usize,
    end: usize,
    quote: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn new(row: &Row<'a>, assessment: &'a Assessment) -> Line<'a> {
        Line {
            server: row.server,
            tool: row.definition.name,
            category: assessment.category.title(),
            risk: assessment.risk.name(),
            confidence: f64::from(assessment.confidence.percent()) / 100.0,
            reasons: assessment.reasons.iter().map(Evidence::of_reason).collect(),
            signals: assessment.signals.iter().map(Evidence::of_signal).collect(),
            findings: assessment.findings.iter().map(Evidence::of_finding).collect(),
        }
    }
}

impl<'a> Evidence<'a> {
    fn of_reason(reason: &'a Reason) -> Evidence<'a> {
        let category = Some(reason.category.title());
        Evidence { category, text: Some(reason.text), ..Evidence::at(&reason.at) }
    }

    fn of_signal(signal: &'a Signal) -> Evidence<'a> {
        Evidence { kind: Some(signal.kind.name()), ..Evidence::at(&signal.at) }
    }

    fn of_finding(finding: &'a Finding) -> Evidence<'a> {
        let kind = Some(finding.kind.name());
        Evidence { kind, text: Some(&finding.text), ..Evidence::at(&finding.at) }
    }

    fn at(spot: &'a Spot) -> Evidence<'a> {
        Evidence {
            kind: None,
            category: None,
            text: None,
            part: spot.part.name(),
            parameter: spot.parameter.as_deref(),
            start: spot.start,
            end: spot.end,
            quote: &spot.quote,
        }
    }
}
