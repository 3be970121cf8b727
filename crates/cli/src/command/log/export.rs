//! `sluice log export`: the log as NDJSON, or as CSV for a spreadsheet.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::Filters;
use crate::{
    api::{Gateway, Question},
    output::{Done, print_bytes},
};

/// The CSV columns: their names, and the JSON pointers of their values in a record.
const COLUMNS: [(&str, &str); 20] = [
    ("id", "/id"),
    ("at", "/at"),
    ("kind", "/kind"),
    ("request", "/request"),
    ("server", "/server"),
    ("grant_id", "/grant/id"),
    ("grant_label", "/grant/label"),
    ("principal", "/principal"),
    ("session", "/session"),
    ("method", "/method"),
    ("tool", "/tool"),
    ("outcome", "/outcome"),
    ("rule", "/rule"),
    ("message", "/message"),
    ("policy_name", "/policy/name"),
    ("policy_version", "/policy/version"),
    ("upstream_status", "/upstream/status"),
    ("upstream_is_error", "/upstream/is_error"),
    ("upstream_micros", "/upstream/micros"),
    ("micros", "/micros"),
];

#[derive(Debug, Args)]
pub(super) struct ExportLog {
    #[command(flatten)]
    filters: Filters,
    /// The maximum number of records
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Form::Ndjson)]
    format: Form,
    /// The same as `--format ndjson`
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One JSON record per line, byte for byte as in the hash chain
    Ndjson,
    /// A table with a header row
    Csv,
}

impl ExportLog {
    pub(super) fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let mut query = self.filters.query();
        query.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        let question = Question { query: &query, ..Question::get(&["audit", "export"]) };
        match self.format {
            Form::Ndjson => gateway.stream(question, |part| Ok(print_bytes(part)?))?,
            Form::Csv => {
                let head = COLUMNS.map(|(name, _)| name).join(",") + "\r\n";
                if !print_bytes(head.as_bytes())? {
                    return Ok(Done::Well);
                }
                let mut rows = Rows::default();
                gateway.stream(question, |part| Ok(print_bytes(rows.take(part)?.as_bytes())?))?;
            }
        }
        Ok(Done::Well)
    }
}

/// Turns JSON lines that arrive in chunks into CSV rows.
#[derive(Debug, Default)]
struct Rows {
    /// The start of an incomplete line.
    rest: Vec<u8>,
}

impl Rows {
    fn take(&mut self, part: &[u8]) -> anyhow::Result<String> {
        self.rest.extend_from_slice(part);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut rows = String::new();
        for line in lines {
            rows.push_str(&row(&serde_json::from_slice(line)?));
        }
        Ok(rows)
    }
}

fn row(record: &Value) -> String {
    let fields = COLUMNS.map(|(_, pointer)| match record.pointer(pointer) {
        Some(Value::String(text)) => field(text),
        Some(other) => other.to_string(),
        None => String::new(),
    });
    fields.join(",") + "\r\n"
}

/// A CSV field as in RFC 4180. Values that a spreadsheet would read as a formula get a leading
/// apostrophe, because names of tools and arguments are untrusted.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Rows, field};

    #[test]
    fn csv_fields_are_quoted_where_needed() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=1+1", "'=1+1"),
            ("@a,b", "\"'@a,b\""),
        ] {
            assert_eq!(field(text), expected);
        }
    }

    #[test]
    fn csv_rows_are_complete_however_the_input_is_split() {
        let mut rows = Rows::default();
        assert_eq!(rows.take(br#"{"id":"1","grant":{"label":"l"},"#).unwrap(), "");
        let first = rows.take(b"\"micros\":7}\n{\"id\"").unwrap();
        assert_eq!(first, "1,,,,,,l,,,,,,,,,,,,,7\r\n");
        assert_eq!(rows.take(b":\"2\"}\n").unwrap(), "2,,,,,,,,,,,,,,,,,,,\r\n");
        assert!(rows.take(b"{\n").is_err());
    }
}
