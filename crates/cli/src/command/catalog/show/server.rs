//! The page of a server.

use std::borrow::Borrow;

use serde_json::Value;
use sluice_admin::known::to_tool_seen;
use sluice_catalog::{Server, Tool, ability};
use sluice_classify::{Category, Risk, SignalKind};
use sluice_policy::suggest_policy;

use crate::{
    command::catalog::page::{Page, of_risk},
    output::{Cell, HELD, STRONG, count_noun, shorten, table, visible},
};

/// Tools shown unless `--all` is given.
const MOST_TOOLS: usize = 15;

pub(super) fn page(server: &Server, tools: &[Tool], all: bool) -> String {
    let mut page = Page::default();
    page.title(&server.name);
    head(&mut page, server);
    if server.counts.is_none() {
        page.heading("Tools");
        page.text("Not known: the registry names servers and not their tools. Import the server's answer to `tools/list` to know them.");
        return page.finish();
    }
    abilities(&mut page, server);
    list(&mut page, server, tools, all);
    let suggested = suggest_for(tools);
    page.heading("Recommended policy");
    for effect in &suggested.effect {
        page.point(effect);
    }
    page.aside(&format!("sluice catalog show {} --policy > policy.json", server.slug));
    page.finish()
}

fn head(page: &mut Page, server: &Server) {
    if let Some(worst) = server.worst() {
        let risk = Risk::from(worst);
        let style = of_risk(risk);
        let tools = count_noun(server.tools().unwrap_or_default(), "tool");
        page.lines(&format!("{style}{risk}{style:#}: the worst of {tools} is {worst}"));
    }
    let version = server.version.as_deref().map(|version| format!(", version {version}"));
    let version = version.unwrap_or_default();
    page.text(&format!("{}{version}", origin(server)));
    if let Some(description) = &server.description {
        page.text(description);
    }
    let about: Option<Value> =
        server.about.as_deref().and_then(|text| serde_json::from_str(text).ok());
    for key in ["packages", "remotes", "repository"] {
        let values = about.as_ref().and_then(|about| about.get(key)).and_then(Value::as_array);
        for value in values.into_iter().flatten().filter_map(Value::as_str) {
            page.aside(value);
        }
    }
    if server.findings > 0 {
        let count = count_noun(server.findings, "sign");
        page.lines(&format!("{HELD}warning{HELD:#}: {count} of poisoning in its definitions"));
    }
}

/// The source of a server, and its location if that adds anything.
pub(super) fn origin(server: &Server) -> String {
    let standing = server.standing.name();
    if server.source == standing {
        standing.to_owned()
    } else {
        format!("{standing}, from {}", server.source)
    }
}

fn abilities(page: &mut Page, server: &Server) {
    let Some(counts) = server.counts else { return };
    page.heading("It lets an agent");
    for category in Category::ALL.into_iter().rev() {
        let count = counts.of(category);
        if count > 0 {
            page.point(&format!(
                "{} ({category}: {})",
                ability(category),
                count_noun(count, "tool")
            ));
        }
    }
}

fn list(page: &mut Page, server: &Server, tools: &[Tool], all: bool) {
    let shown = if all { tools.len() } else { MOST_TOOLS };
    let rows: Vec<_> = tools
        .iter()
        .take(shown)
        .map(|tool| {
            let traits = tool.traits;
            let style = of_risk(traits.risk());
            let warning = (traits.findings.total() > 0).then_some("! poisoned?");
            let signals = traits.signals.kinds().map(SignalKind::name);
            let signals: Vec<&str> = warning.into_iter().chain(signals).collect();
            [
                Cell::new(&shorten(&tool.name, 30)),
                Cell::with_style(traits.category.name(), style),
                Cell::new(&format!("{} %", traits.confidence)),
                Cell::new(&shorten(&signals.join(", "), 26)),
            ]
        })
        .collect();
    page.heading("Tools");
    page.lines(&table(["TOOL", "CATEGORY", "CONFIDENCE", "SIGNALS"], &rows));
    let left = tools.len().saturating_sub(shown);
    if left > 0 {
        page.aside(&format!("and {left} more, none of them worse: --all"));
    }
    // Users copy this command, so a name from outside must not change what it does.
    if let Some(first) = tools.iter().find(|tool| is_plain(&tool.name)) {
        page.aside(&format!("sluice catalog show {}/{}", server.slug, first.name));
    }
}

/// Whether a shell treats a name as one literal word.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

fn suggest_for<T: Borrow<Tool>>(tools: &[T]) -> sluice_policy::SuggestedPolicy {
    suggest_policy(tools.iter().map(Borrow::borrow).map(to_tool_seen))
}

/// The recommended policy alone, as a file's text.
pub(super) fn policy<T: Borrow<Tool>>(tools: &[T]) -> String {
    suggest_for(tools).policy
}

/// A word in bold.
pub(super) fn strong(text: &str) -> String {
    format!("{STRONG}{}{STRONG:#}", visible(text))
}
