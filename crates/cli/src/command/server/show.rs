//! One server and its tools.

use anstyle::Style;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use sluice_store::Name;

use super::{OneServer, Server};
use crate::{
    api::{Gateway, Question},
    output::{BAD, Cell, Columns, Done, FAINT, GOOD, HELD, print, print_json, remark, table},
};

/// The longest quotation shown, in characters.
const LONGEST_QUOTE: usize = 40;

#[derive(Debug, Args)]
pub(crate) struct ServerTools {
    /// The server's name
    #[arg(value_parser = Name::new)]
    name: Name,
    /// Print the tools' definitions as the server wrote them, as `tools/list` does: a file for
    /// `--tools` of the policy commands
    #[arg(long, conflicts_with = "json")]
    definitions: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
struct Tool {
    name: String,
    category: String,
    risk: String,
    confidence: f64,
    reasons: Vec<Reason>,
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    text: String,
    part: String,
    quote: String,
}

#[derive(Debug, Deserialize)]
struct Finding {
    text: String,
}

impl Tool {
    /// The problem with the definition, or else the first reason for its category.
    fn why(&self) -> String {
        if let Some(finding) = self.findings.first() {
            return format!("warning: {}", finding.text);
        }
        match self.reasons.first() {
            Some(Reason { text, part, quote }) => {
                format!("{text} ({part}: {})", first_line(quote))
            }
            None => "nothing in its definition says".into(),
        }
    }
}

pub(super) fn show(gateway: &Gateway, one: &OneServer) -> anyhow::Result<Done> {
    let server = gateway.ask(Question::get(&["servers", one.name.as_str()]))?;
    if one.json {
        print_json(&server)?;
    } else {
        print(&draw_server(&serde_json::from_value(server)?))?;
    }
    Ok(Done::Well)
}

fn draw_server(server: &Server) -> String {
    let Server { name, source, timeout, headers, anonymous_policy, env, instances, .. } = server;
    let rows = [
        ("name", name.clone()),
        ("from", source.clone()),
        ("place", server.place()),
        ("headers", headers.join(", ")),
        ("environment", env.join(", ")),
        ("instances", instances.clone().unwrap_or_default()),
        ("timeout", timeout.clone()),
        ("without a token", anonymous_policy.clone().unwrap_or_default()),
    ];
    let rows = rows.iter().filter(|(_, text)| !text.is_empty());
    let rows: Vec<_> =
        rows.map(|(key, text)| [Cell::with_style(key, FAINT), Cell::new(text)]).collect();
    Columns::new().lines(&rows)
}

pub(super) fn tools(gateway: &Gateway, wanted: &ServerTools) -> anyhow::Result<Done> {
    let answer = gateway.ask(Question::get(&["servers", wanted.name.as_str(), "tools"]))?;
    if wanted.definitions {
        let tools = answer.get("tools").and_then(Value::as_array).into_iter().flatten();
        let definitions: Vec<_> = tools.filter_map(|tool| tool.get("definition")).collect();
        print_json(&json!({ "tools": definitions }))?;
    } else if wanted.json {
        print_json(&answer)?;
    } else {
        print(&draw_tools(&read(&answer)?))?;
    }
    Ok(Done::Well)
}

pub(super) fn refresh(gateway: &Gateway, one: &OneServer) -> anyhow::Result<Done> {
    let answer = gateway.ask(Question::post(&["servers", one.name.as_str(), "refresh"]))?;
    if one.json {
        print_json(&answer)?;
    } else {
        let count = read(&answer)?.len();
        let tools = if count == 1 { "1 tool".into() } else { format!("{count} tools") };
        remark(&format!("{GOOD}ok{GOOD:#}: server `{}` has {tools}\n", one.name))?;
    }
    Ok(Done::Well)
}

fn read(answer: &Value) -> anyhow::Result<Vec<Tool>> {
    let tools = answer.get("tools").cloned().unwrap_or_default();
    Ok(serde_json::from_value(tools)?)
}

fn draw_tools(tools: &[Tool]) -> String {
    if tools.is_empty() {
        return "the server has no tools\n".into();
    }
    let rows: Vec<_> = tools
        .iter()
        .map(|tool| {
            let style = match tool.risk.as_str() {
                "critical" => BAD,
                "high" => HELD,
                _ => Style::new(),
            };
            [
                Cell::new(&tool.name),
                Cell::with_style(&tool.category, style),
                Cell::with_style(&tool.risk, style),
                Cell::new(&format!("{:.0} %", tool.confidence * 100.0)),
                Cell::new(&tool.why()),
            ]
        })
        .collect();
    table(["TOOL", "CATEGORY", "RISK", "CONFIDENCE", "WHY"], &rows)
}

/// The first line of a text, shortened.
fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let start: String = line.chars().take(LONGEST_QUOTE).collect();
    if start.len() < line.len() { start + "…" } else { start }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{draw_tools, first_line, read};

    #[test]
    fn tools_are_listed_with_their_categories_and_reasons() {
        let reason = json!({ "text": "the name reads", "part": "name", "quote": "list" });
        let tools = read(&json!({ "tools": [
            { "name": "list", "category": "read", "risk": "low", "confidence": 0.95,
              "reasons": [reason], "findings": [] },
            { "name": "x", "category": "other", "risk": "low", "confidence": 0.35,
              "reasons": [], "findings": [] },
            { "name": "pay\u{1b}", "category": "financial", "risk": "critical", "confidence": 0.9,
              "reasons": [], "findings": [{ "text": "looks like `pay`" }] },
        ] }));
        let text = draw_tools(&tools.unwrap());
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain,
            "TOOL       CATEGORY   RISK      CONFIDENCE  WHY\n\
             list       read       low       95 %        the name reads (name: list)\n\
             x          other      low       35 %        nothing in its definition says\n\
             pay\\u{1b}  financial  critical  90 %        warning: looks like `pay`\n"
        );
        assert_eq!(first_line(&"é".repeat(41)), "é".repeat(40) + "…");
    }
}
