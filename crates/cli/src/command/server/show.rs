//! One server and its tools.

use serde::Deserialize;
use serde_json::Value;

use super::{One, Server};
use crate::{
    api::{Gateway, Question},
    output::{Cell, Columns, Done, FAINT, GOOD, print, print_json, remark, table},
};

/// Characters of a description that are shown.
const LONGEST_DESCRIPTION: usize = 80;

#[derive(Debug, Deserialize)]
struct Tool {
    name: String,
    category: String,
    definition: Value,
}

pub(super) fn show(gateway: &Gateway, one: &One) -> anyhow::Result<Done> {
    let server = gateway.ask(Question::get(&["servers", one.name.as_str()]))?;
    if one.json {
        print_json(&server)?;
    } else {
        print(&described(&serde_json::from_value(server)?))?;
    }
    Ok(Done::Well)
}

fn described(server: &Server) -> String {
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
        rows.map(|(key, text)| [Cell::styled(key, FAINT), Cell::new(text)]).collect();
    Columns::new().lines(&rows)
}

pub(super) fn tools(gateway: &Gateway, one: &One) -> anyhow::Result<Done> {
    let answer = gateway.ask(Question::get(&["servers", one.name.as_str(), "tools"]))?;
    if one.json {
        print_json(&answer)?;
    } else {
        print(&listed(&read(&answer)?))?;
    }
    Ok(Done::Well)
}

pub(super) fn refresh(gateway: &Gateway, one: &One) -> anyhow::Result<Done> {
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

fn listed(tools: &[Tool]) -> String {
    if tools.is_empty() {
        return "the server has no tools\n".into();
    }
    let rows: Vec<_> = tools
        .iter()
        .map(|tool| {
            let description = tool.definition.get("description").and_then(Value::as_str);
            let description = shortened(description.unwrap_or_default());
            [Cell::new(&tool.name), Cell::new(&tool.category), Cell::new(&description)]
        })
        .collect();
    table(["TOOL", "CATEGORY", "DESCRIPTION"], &rows)
}

/// The beginning of a text's first line.
fn shortened(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let start: String = line.chars().take(LONGEST_DESCRIPTION).collect();
    if start.len() < line.len() { start + "…" } else { start }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Tool, listed, shortened};

    #[test]
    fn tools_are_listed_with_the_beginning_of_their_description() {
        let tool = |name: &str, definition| Tool {
            name: name.into(),
            category: "read".into(),
            definition,
        };
        let text = listed(&[
            tool("list", json!({"description": "Lists notes.\nAll of them."})),
            tool("x", json!(null)),
        ]);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain,
            "TOOL  CATEGORY  DESCRIPTION\nlist  read      Lists notes.\nx     read\n"
        );
        assert_eq!(shortened(&"é".repeat(81)), "é".repeat(80) + "…");
    }
}
