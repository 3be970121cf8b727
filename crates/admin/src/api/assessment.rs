//! The assessment of a tool, as the API writes it.

use serde::Serialize;
use serde_json::Value;
use sluice_classify::{Assessment, Attack, Spot};
use sluice_policy::{ToolSeen, suggest_entry};
use utoipa::ToSchema;

use crate::{
    Tool,
    schema::{DefinitionPart, EvidenceKind, ToolCategory, ToolRisk},
};

/// A tool with its assessment and the recommended policy entry.
#[derive(Debug, Serialize, ToSchema)]
pub struct AssessedTool {
    name: String,
    #[schema(value_type = ToolCategory)]
    category: &'static str,
    #[schema(value_type = ToolRisk)]
    risk: &'static str,
    /// How certain the category is.
    #[schema(minimum = 0, maximum = 1)]
    confidence: f64,
    /// Evidence for the category.
    reasons: Vec<Evidence>,
    /// What makes it riskier.
    signals: Vec<Evidence>,
    /// Signs of poisoning.
    findings: Vec<Evidence>,
    /// Ids of the attack patterns that fit it.
    attacks: Vec<&'static str>,
    /// The entry for it in a policy under `default: "deny"`.
    #[schema(value_type = Object)]
    recommended_entry: Value,
    /// What that entry does, in words.
    recommended_effect: &'static str,
    /// The definition as the server wrote it.
    #[schema(value_type = Object)]
    definition: Value,
}

/// Something that was seen in a definition, and where.
#[derive(Debug, Serialize, ToSchema)]
struct Evidence {
    #[schema(value_type = EvidenceKind)]
    says: &'static str,
    /// An explanation.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[schema(value_type = DefinitionPart)]
    part: &'static str,
    /// The parameter that it stands in.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// Where the quote starts, in bytes of that part's text.
    start: usize,
    /// Where the quote ends, in bytes of that part's text.
    end: usize,
    quote: String,
}

impl From<Tool> for AssessedTool {
    fn from(tool: Tool) -> AssessedTool {
        let Assessment { category, risk, confidence, .. } = tool.assessment;
        let attacks = Attack::fitting(&tool.assessment).iter().map(|one| one.id.as_str()).collect();
        let recommended = suggest_entry(ToolSeen::from_assessment(&tool.name, &tool.assessment));
        let Assessment { reasons, signals, findings, .. } = tool.assessment;
        let reasons = reasons.into_iter();
        let findings = findings.into_iter();
        AssessedTool {
            category: category.name(),
            risk: risk.name(),
            confidence: f64::from(confidence.percent()) / 100.0,
            reasons: reasons
                .map(|one| Evidence::new(one.category.name(), Some(one.text.to_owned()), one.at))
                .collect(),
            signals: signals
                .into_iter()
                .map(|one| Evidence::new(one.kind.name(), None, one.at))
                .collect(),
            findings: findings
                .map(|one| Evidence::new(one.kind.name(), Some(one.text), one.at))
                .collect(),
            attacks,
            recommended_entry: recommended.entry,
            recommended_effect: recommended.effect,
            definition: serde_json::from_str(&tool.definition).unwrap_or(Value::Null),
            name: tool.name,
        }
    }
}

impl Evidence {
    fn new(says: &'static str, text: Option<String>, at: Spot) -> Evidence {
        let Spot { part, parameter, start, end, quote } = at;
        Evidence { says, text, part: part.name(), parameter, start, end, quote }
    }
}
