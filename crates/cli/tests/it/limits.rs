//! The reference page of limits: each setting exists with the default that it states, and each
//! fixed bound is the constant that it names.

use std::{fs, path::Path};

use serde_json::Value;

use crate::sluice::Folder;

/// One row of the page's tables.
struct Row {
    bound: String,
    default: String,
    setting: String,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(root().join("docs/reference/limits.md")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let tables = page.lines().filter(|line| line.starts_with("| "));
    let rows = tables.filter(|line| !line.starts_with("| ---") && !line.starts_with("| bound |"));
    rows.map(|line| match &*cells(line) {
        [bound, default, setting, beyond] if !beyond.is_empty() => {
            Row { bound: bound.clone(), default: default.clone(), setting: setting.clone() }
        }
        _ => panic!("not bound, default, setting and what is beyond it: {line}"),
    })
    .collect()
}

/// An amount in bytes, milliseconds or pieces: `4 MiB`, `90d`, `1,024`.
fn amount(text: &str) -> Option<u64> {
    let text = text.replace([',', '_', ' '], "");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match unit {
        "" | "B" | "ms" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "s" => 1000,
        "m" | "min" => 60 * 1000,
        "h" => 3_600 * 1000,
        "d" => 86_400 * 1000,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? * scale)
}

/// The value of a constant's expression, in the same units.
fn evaluate(expression: &str) -> Option<u64> {
    let span = |name: &str| {
        let inner = expression.strip_prefix("Duration::from_")?.strip_prefix(name)?;
        amount(inner.strip_prefix('(')?.strip_suffix(')')?)
    };
    for (name, scale) in [("millis", 1), ("secs", 1000), ("mins", 60_000), ("hours", 3_600_000)] {
        if let Some(value) = span(name) {
            return Some(value * scale);
        }
    }
    match expression.split_once("<<") {
        Some((base, shift)) => Some(amount(base)? << amount(shift)?),
        None => amount(expression),
    }
}

/// The expression of the constant that `crate/module::NAME` refers to.
fn constant(reference: &str) -> String {
    let (path, name) = reference.split_once("::").unwrap_or_else(|| panic!("{reference}"));
    let (folder, module) = path.split_once('/').unwrap_or_else(|| panic!("{reference}"));
    let file = root().join(format!("crates/{folder}/src/{module}.rs"));
    let source = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{reference}: {error}"));
    let declared = format!("const {name}: ");
    let line = source.lines().find(|line| line.contains(&declared));
    let line = line.unwrap_or_else(|| panic!("{reference} is not in {}", file.display()));
    line.split_once(" = ").unwrap().1.trim_end_matches(';').to_owned()
}

/// The default of a setting, as `sluice config` shows it.
fn default_of(config: &Value, setting: &str) -> String {
    let path = setting.replace("servers.NAME", "servers.demo");
    let value = path.split('.').fold(config, |value, key| &value[key]);
    match value {
        Value::String(text) => text.clone(),
        Value::Null => panic!("`sluice config` does not know `{setting}`"),
        other => other.to_string(),
    }
}

#[test]
fn every_row_of_the_page_is_as_the_code_has_it() {
    let folder = Folder::with("sluice.toml", "[servers.demo]\nbuiltin = \"demo\"\n");
    let config = folder.run(&["config", "--json", "--data", "d"]).exits(0).json();
    let rows = rows();
    assert!(rows.len() > 40, "only {} rows", rows.len());
    for Row { bound, default, setting } in rows {
        let stated = amount(&default).unwrap_or_else(|| panic!("{bound}: `{default}`"));
        let named = |text: &str| text.trim_matches('`').to_owned();
        let actual = match setting.strip_prefix("fixed: ") {
            Some(reference) => {
                let expression = constant(&named(reference));
                evaluate(&expression).unwrap_or_else(|| panic!("{bound}: `{expression}`"))
            }
            None => amount(&default_of(&config["config"], &named(&setting))).unwrap(),
        };
        assert_eq!(stated, actual, "{bound}: the page says {default}, {setting}");
    }
}

/// So that no setting of messages, calls and connections is without its row.
#[test]
fn every_setting_of_limits_has_a_row() {
    let folder = Folder::new();
    let config = folder.run(&["config", "--json", "--data", "d"]).exits(0).json();
    let rows = rows();
    for key in config["config"]["limits"].as_object().unwrap().keys() {
        let setting = format!("`limits.{key}`");
        assert!(rows.iter().any(|row| row.setting == setting), "no row for {setting}");
    }
}
