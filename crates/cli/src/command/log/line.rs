//! Formats records as a table for people.

use anstyle::Style;
use serde_json::Value;

use crate::output::{BAD, Cell, Columns, FAINT, GOOD, HELD};

const HEAD: [&str; 7] = ["TIME", "KIND", "OUTCOME", "SERVER", "TOOL", "GRANT", "WHY"];

/// A log table that is printed in several parts.
#[derive(Debug)]
pub(super) struct Lines {
    columns: Columns<7>,
    has_head: bool,
}

impl Lines {
    pub(super) fn new() -> Lines {
        Lines { columns: Columns::new(), has_head: false }
    }

    /// Formats more records; the first call also adds the head.
    pub(super) fn draw(&mut self, records: &[Value]) -> String {
        if records.is_empty() {
            return String::new();
        }
        let mut rows: Vec<_> = records.iter().map(cells).collect();
        if !self.has_head {
            rows.insert(0, HEAD.map(|title| Cell::with_style(title, FAINT)));
            self.has_head = true;
        }
        self.columns.lines(&rows)
    }
}

fn cells(record: &Value) -> [Cell; 7] {
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let outcome = text("/outcome");
    [
        Cell::with_style(&shown_time(text("/at")), FAINT),
        Cell::new(text("/kind")),
        Cell::with_style(&shown_outcome(record), style(outcome)),
        Cell::new(text("/server")),
        Cell::new(text("/tool")),
        Cell::new(text("/grant/label")),
        Cell::new(&why(text("/rule"), text("/message"))),
    ]
}

/// The time to the second, with a blank in place of the `T`.
fn shown_time(at: &str) -> String {
    match at.split_once('.') {
        Some((seconds, _)) => seconds.replacen('T', " ", 1) + "Z",
        None => at.to_owned(),
    }
}

/// The decision on a call, or the status of the server's answer.
fn shown_outcome(record: &Value) -> String {
    let outcome = record.pointer("/outcome").and_then(Value::as_str).unwrap_or_default();
    let status = record.pointer("/upstream/status").and_then(Value::as_u64);
    match status {
        Some(status) if outcome.is_empty() => status.to_string(),
        _ => outcome.to_owned(),
    }
}

fn style(outcome: &str) -> Style {
    match outcome {
        "allow" => GOOD,
        "deny" | "hide" | "error" => BAD,
        "hold" | "shadow_deny" => HELD,
        _ => Style::new(),
    }
}

fn why(rule: &str, message: &str) -> String {
    match (rule, message) {
        ("", message) => message.to_owned(),
        (rule, "") => rule.to_owned(),
        (rule, message) => format!("{rule}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Lines;

    #[test]
    fn records_become_lines_under_one_head() {
        let denied = json!({
            "at": "2026-11-15T06:38:28.123Z", "kind": "decision", "outcome": "deny",
            "server": "notes", "tool": "pay\u{1b}", "grant": {"id": "g", "label": "laptop"},
            "rule": "no_pay", "message": "not today",
        });
        let came = json!({
            "at": "2026-11-15T06:38:29.000Z", "kind": "outcome", "upstream": {"status": 200},
        });
        let mut lines = Lines::new();
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        let first = plain(lines.draw(&[denied]));
        let expected = "TIME                  KIND      OUTCOME  SERVER  TOOL       GRANT   WHY\n\
            2026-11-15 06:38:28Z  decision  deny     notes   pay\\u{1b}  laptop  no_pay: not today\n";
        assert_eq!(first, expected);
        assert_eq!(plain(lines.draw(&[came])), "2026-11-15 06:38:29Z  outcome   200\n");
        assert_eq!(lines.draw(&[]), "");
    }
}
