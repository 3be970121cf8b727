//! `sluice grant show --access`: prints what happens to a grant's calls of each tool.

use serde::Deserialize;
use serde_json::{Value, json};

use super::OneGrant;
use crate::{
    api::{Gateway, Question},
    output::{BAD, Cell, Done, GOOD, HELD, print, print_json, table, visible},
};

/// A tool, as the API shows it.
#[derive(Debug, Deserialize)]
struct Row {
    server: String,
    tool: String,
    category: String,
    risk: String,
    outcome: String,
    rule: String,
    policy: Option<Policy>,
    shadow: Option<Shadow>,
}

#[derive(Debug, Deserialize)]
struct Policy {
    name: String,
    version: String,
}

#[derive(Debug, Deserialize)]
struct Shadow {
    outcome: String,
}

/// A server whose tools cannot be listed.
#[derive(Debug, Deserialize)]
struct Silent {
    server: String,
    why: String,
}

pub(super) fn run(gateway: &Gateway, one: &OneGrant) -> anyhow::Result<Done> {
    let (mut rows, mut silent) = (Vec::new(), Vec::new());
    let mut query = Vec::new();
    loop {
        let path = ["grants", one.id.as_str(), "access"];
        let answer = gateway.ask(Question { query: &query, ..Question::get(&path) })?;
        let list = |key| answer.get(key).and_then(Value::as_array).into_iter().flatten().cloned();
        rows.extend(list("access"));
        silent.extend(list("silent").filter(|server| !silent.contains(server)).collect::<Vec<_>>());
        let Some(next) = answer.get("next").and_then(Value::as_str) else { break };
        query = vec![("cursor", next.to_owned())];
    }
    if one.json {
        print_json(&json!({ "access": rows, "silent": silent }))?;
    } else {
        let rows: Vec<Row> = serde_json::from_value(rows.into())?;
        let silent: Vec<Silent> = serde_json::from_value(silent.into())?;
        print(&draw(&rows, &silent))?;
    }
    Ok(Done::Well)
}

fn draw(rows: &[Row], silent: &[Silent]) -> String {
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let style = match row.outcome.as_str() {
                "allow" => GOOD,
                "deny" | "hide" => BAD,
                _ => HELD,
            };
            let outcome = match &row.shadow {
                Some(shadow) => format!("{} (shadow: {})", row.outcome, shadow.outcome),
                None => row.outcome.clone(),
            };
            let policy = row.policy.as_ref();
            let policy = policy.map(|policy| format!("{} {}", policy.name, policy.version));
            [
                Cell::new(&row.server),
                Cell::new(&row.tool),
                Cell::new(&row.category),
                Cell::new(&row.risk),
                Cell::with_style(&outcome, style),
                Cell::new(&row.rule),
                Cell::maybe(policy.as_deref()),
            ]
        })
        .collect();
    let head = ["SERVER", "TOOL", "CATEGORY", "RISK", "OUTCOME", "RULE", "POLICY"];
    let mut text = if cells.is_empty() { String::new() } else { table(head, &cells) };
    let missing = silent.iter().map(|Silent { server, why }| {
        let (server, why) = (visible(server), visible(why.lines().next().unwrap_or_default()));
        format!("{HELD}missing{HELD:#}: the tools of `{server}` cannot be listed: {why}\n")
    });
    text.extend(missing);
    if text.is_empty() { "its servers have no tools\n".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::{Policy, Row, Shadow, Silent, draw};

    #[test]
    fn each_tool_has_its_outcome_and_silent_servers_are_named() {
        let row = Row {
            server: "files".into(),
            tool: "read".into(),
            category: "read".into(),
            risk: "low".into(),
            outcome: "allow".into(),
            rule: "(shadow mode)".into(),
            policy: Some(Policy { name: "dev".into(), version: "ab".into() }),
            shadow: Some(Shadow { outcome: "deny".into() }),
        };
        let silent = Silent { server: "mail".into(), why: "it ended".into() };
        let plain = anstream::adapter::strip_str(&draw(&[row], &[silent])).to_string();
        assert_eq!(
            plain,
            "SERVER  TOOL  CATEGORY  RISK  OUTCOME               RULE           POLICY\n\
             files   read  read      low   allow (shadow: deny)  (shadow mode)  dev ab\n\
             missing: the tools of `mail` cannot be listed: it ended\n"
        );
    }
}
