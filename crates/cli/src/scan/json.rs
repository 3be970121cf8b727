//! A scan as JSON.

use serde_json::{Map, Value, json as object};
use sluice_admin::{AssessedTool, Tool};
use sluice_classify::Category;

use sluice_scan::{Scan, Scanned, bearing, estimate_tokens, verdict};

/// The whole scan.
pub(crate) fn json(scan: &Scan) -> anyhow::Result<Value> {
    let suggested = scan.policy();
    let tools = scan.tools.iter().map(tool).collect::<anyhow::Result<Vec<_>>>()?;
    let counts = Category::ALL.into_iter().map(|category| {
        let number = scan.tools.iter().filter(|tool| tool.assessment.category == category).count();
        (category.name().to_owned(), number.into())
    });
    let instructions = scan.instructions.as_ref().map(|text| {
        let findings = scan.instruction_findings.iter().map(|noted| {
            let finding = &noted.finding;
            object!({
                "says": finding.kind.name(), "text": finding.text, "part": finding.at.part.name(),
                "start": finding.at.start, "end": finding.at.end, "quote": finding.at.quote,
            })
        });
        object!({
            "text": text,
            "tokens": estimate_tokens(text),
            "findings": findings.collect::<Vec<_>>(),
        })
    });
    let attacks = bearing(scan).into_iter().map(|one| {
        let attack = one.attack;
        object!({
            "id": attack.id, "title": attack.title, "text": attack.text, "stops": attack.stops,
            "owasp": attack.owasp, "atlas": attack.atlas, "safe_mcp": attack.safe_mcp,
            "cves": attack.cves, "tools": one.tools,
        })
    });
    Ok(object!({
        "server": {
            "name": scan.name, "version": scan.version, "protocol": scan.revision,
            "resources": scan.resources, "prompts": scan.prompts, "instructions": instructions,
        },
        "verdict": verdict(scan, str::to_owned),
        "categories": counts.collect::<Map<_, _>>(),
        "tokens": scan.tokens(),
        "findings": scan.findings().count() + scan.repeated.len(),
        "repeated_names": scan.repeated,
        "passed_over": scan.nameless,
        "tools": tools,
        "attacks": attacks.collect::<Vec<_>>(),
        "policy": serde_json::from_str::<Value>(&suggested.policy)?,
        "effect": suggested.effect,
    }))
}

/// A tool as the API writes it, with its cost in tokens.
fn tool(tool: &Scanned) -> anyhow::Result<Value> {
    let assessed = AssessedTool::from(Tool {
        name: tool.name.clone(),
        assessment: tool.assessment.clone(),
        definition: tool.definition.clone(),
    });
    let mut value = serde_json::to_value(assessed)?;
    if let Some(members) = value.as_object_mut() {
        members.insert("tokens".into(), tool.tokens.into());
    }
    Ok(value)
}
