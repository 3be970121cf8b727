//! Formats records as a table for people.

use anstyle::Style;
use serde_json::Value;
use sluice_store::Outcome;

use super::calls::is_sent;
use crate::output::{BAD, Cell, Columns, FAINT, GOOD, HELD};

const HEAD: [&str; 8] = ["TIME", "KIND", "OUTCOME", "RESULT", "SERVER", "TOOL", "GRANT", "WHY"];

/// A log table that is printed in several parts.
#[derive(Debug)]
pub(super) struct Lines {
    columns: Columns<8>,
    has_head: bool,
    /// Whether decision and outcome of a call are one line.
    are_calls: bool,
}

impl Lines {
    pub(super) fn new(are_calls: bool) -> Lines {
        Lines { columns: Columns::new(), has_head: false, are_calls }
    }

    /// Formats more records; the first call also adds the head.
    pub(super) fn draw(&mut self, records: &[Value]) -> String {
        if records.is_empty() {
            return String::new();
        }
        let mut rows: Vec<_> = records.iter().map(|record| cells(record, self.are_calls)).collect();
        if !self.has_head {
            rows.insert(0, HEAD.map(|title| Cell::with_style(title, FAINT)));
            self.has_head = true;
        }
        self.columns.lines(&rows)
    }
}

fn cells(record: &Value, are_calls: bool) -> [Cell; 8] {
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, outcome) = (text("/kind"), text("/outcome"));
    let is_call = are_calls && kind == "decision";
    let (result, result_style) = if is_call { result(record) } else { (status(record), FAINT) };
    let failure = Some(text("/result/message")).filter(|message| !message.is_empty());
    let why = failure.map_or_else(|| why(text("/rule"), text("/message")), str::to_owned);
    let tool = Some(text("/tool")).filter(|tool| !tool.is_empty());
    [
        Cell::with_style(&format_time(text("/at")), FAINT),
        Cell::new(if is_call { "call" } else { kind }),
        Cell::with_style(outcome, style(outcome)),
        Cell::with_style(&result, result_style),
        Cell::new(text("/server")),
        Cell::new(tool.unwrap_or_else(|| text("/method"))),
        Cell::new(text("/grant/label")),
        Cell::new(&why),
    ]
}

/// What came of a call that was let through.
fn result(call: &Value) -> (String, Style) {
    let outcome = call.pointer("/result/outcome").and_then(Value::as_str);
    match outcome.and_then(Outcome::from_name) {
        Some(Outcome::Error) => ("error".to_owned(), BAD),
        Some(_) => ("ok".to_owned(), GOOD),
        None if is_sent(call) => ("unknown".to_owned(), HELD),
        None => (String::new(), FAINT),
    }
}

/// The status of the server's answer.
fn status(record: &Value) -> String {
    let status = record.pointer("/upstream/status").and_then(Value::as_u64);
    status.map(|status| status.to_string()).unwrap_or_default()
}

/// The time to the second, with a blank in place of the `T`.
fn format_time(at: &str) -> String {
    match at.split_once('.') {
        Some((seconds, _)) => seconds.replacen('T', " ", 1) + "Z",
        None => at.to_owned(),
    }
}

fn style(outcome: &str) -> Style {
    match Outcome::from_name(outcome) {
        Some(Outcome::Allow) => GOOD,
        Some(Outcome::Deny | Outcome::Hide | Outcome::Error) => BAD,
        Some(Outcome::Hold | Outcome::ShadowDeny) => HELD,
        // A record without an outcome, or of a newer gateway.
        None => Style::new(),
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
        let mut lines = Lines::new(false);
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        let first = plain(lines.draw(std::slice::from_ref(&denied)));
        let expected = "TIME                  KIND      OUTCOME  RESULT  SERVER  TOOL       GRANT   WHY\n\
            2026-11-15 06:38:28Z  decision  deny             notes   pay\\u{1b}  laptop  no_pay: not today\n";
        assert_eq!(first, expected);
        assert_eq!(plain(lines.draw(&[came])), "2026-11-15 06:38:29Z  outcome            200\n");
        assert_eq!(lines.draw(&[]), "");
        let mut call = denied;
        call["outcome"] = "allow".into();
        call["result"] = json!({"outcome": "error", "message": "it timed out"});
        let drawn = plain(Lines::new(true).draw(&[call]));
        assert!(drawn.contains("call  allow    error   notes"), "{drawn}");
        assert!(drawn.ends_with("laptop  it timed out\n"), "{drawn}");
    }
}
