//! The page of a tool.

use sluice_admin::known::to_tool_seen;
use sluice_catalog::{
    Catalog, CatalogError, Evidence, Evident, Hit, Server, Tool, abilities, reasons_for_policy,
};
use sluice_policy::suggest_entry;

use super::server::{origin, strong};
use crate::{
    command::catalog::page::{Page, of_risk},
    output::{BAD, visible},
};

/// Attack patterns shown unless `--all` is given.
const MOST_ATTACKS: usize = 4;
/// Names of sibling tools that are shown.
const MOST_SIBLINGS: usize = 5;

pub(super) fn page(
    catalog: &Catalog,
    server: &Server,
    tool: &Tool,
    all: bool,
) -> Result<String, CatalogError> {
    let mut page = Page::default();
    page.title(&tool.name);
    let (traits, risk) = (tool.traits, tool.traits.risk());
    let (style, category) = (of_risk(risk), traits.category);
    let confidence = traits.confidence;
    page.lines(&format!("{style}{risk} risk{style:#} · {category} · {confidence} % confidence"));
    page.text(&format!("of {}, {}", server.name, origin(server)));
    if let Some(description) = &tool.description {
        page.text(&format!("“{description}”"));
    }
    page.heading("It lets an agent");
    for ability in abilities(&traits) {
        page.point(ability);
    }
    page.heading("Why it needs a policy");
    for reason in reasons_for_policy(&traits) {
        page.point(reason);
    }
    evidence(&mut page, tool);
    attacks(&mut page, tool, all);
    let suggested = suggest_entry(to_tool_seen(tool));
    page.heading("Recommended policy");
    page.text(suggested.effect);
    let entry = serde_json::json!({ tool.name.as_str(): suggested.entry });
    for line in format!("{entry:#}").lines() {
        page.lines(&visible(line));
    }
    related_tools(&mut page, tool, &catalog.tools(server)?, &catalog.related_tools(server, tool)?);
    Ok(page.finish())
}

fn evidence(page: &mut Page, tool: &Tool) {
    let is_finding = |one: &&Evidence| matches!(one.what, Evident::Finding(_));
    let seen: Vec<&Evidence> = tool.evidence.iter().filter(|one| !is_finding(one)).collect();
    page.heading("Evidence");
    if seen.is_empty() {
        page.text("Nothing in its definition says what it does.");
    }
    for one in seen {
        page.point(&describe_evidence(one));
    }
    let findings: Vec<&Evidence> = tool.evidence.iter().filter(is_finding).collect();
    if !findings.is_empty() {
        page.heading(&format!("{BAD}Signs of poisoning{BAD:#}"));
        for one in findings {
            page.point(&describe_evidence(one));
        }
    }
}

/// Describes one finding and its position.
fn describe_evidence(evidence: &Evidence) -> String {
    let says = match &evidence.what {
        Evident::Reason(category, text) => format!("{category}: {text}"),
        Evident::Signal(kind) => format!("signal {kind}"),
        Evident::Finding(kind) => format!("{kind}: {}", kind.text()),
    };
    let quote = evidence.quote.split_whitespace().collect::<Vec<_>>().join(" ");
    let quote = if quote.is_empty() { String::new() } else { format!(" “{quote}”") };
    let parameter = evidence.parameter.as_deref().map(|name| format!(" of parameter `{name}`"));
    format!("{says} ({}{}{quote})", evidence.part, parameter.unwrap_or_default())
}

fn attacks(page: &mut Page, tool: &Tool, all: bool) {
    let attacks = tool.traits.attacks();
    let shown = if all { attacks.len() } else { MOST_ATTACKS };
    page.heading("Attack patterns that use such access");
    for attack in attacks.iter().take(shown) {
        page.lines(&format!("- {}", strong(&attack.title))).detail(&attack.stops);
        if all {
            let ids = [&attack.cves, &attack.owasp, &attack.atlas, &attack.safe_mcp];
            let ids: Vec<&str> = ids.into_iter().flatten().map(String::as_str).collect();
            page.detail(&ids.join(" "));
        }
    }
    let left = attacks.len().saturating_sub(shown);
    if left > 0 {
        page.aside(&format!("and {left} more, with their ids: --all"));
    }
}

fn related_tools(page: &mut Page, tool: &Tool, siblings: &[Tool], elsewhere: &[Hit]) {
    page.heading("Related tools");
    let others: Vec<String> = siblings
        .iter()
        .filter(|other| other.name != tool.name)
        .take(MOST_SIBLINGS)
        .map(|other| format!("{} ({})", other.name, other.traits.category))
        .collect();
    if others.is_empty() && elsewhere.is_empty() {
        page.text("None that is known.");
    }
    if !others.is_empty() {
        page.text(&format!("here: {}", others.join(", ")));
    }
    for hit in elsewhere {
        page.text(&format!("{}/{} ({})", hit.server, hit.tool, hit.traits.category));
    }
}
