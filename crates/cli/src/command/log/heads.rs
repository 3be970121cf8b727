//! Signed heads that were exported earlier, compared with the log.

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    api::{Gateway, Question},
    input,
};

/// Heads in one request of the API, at most.
const PAGE: usize = 1_000;
/// The longest file of heads, in bytes: years of one a minute.
const LONGEST_FILE: u64 = 512 << 20;

/// The result of comparing a file of heads, in the form of the API's answer.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct HeadsCompared {
    pub(super) ok: bool,
    pub(super) found: u64,
    pub(super) pruned: u64,
    pub(super) faults: Vec<Value>,
}

/// Compares the log with all heads in a file, or of standard input.
pub(super) fn compare(gateway: &Gateway, file: &str) -> anyhow::Result<HeadsCompared> {
    let heads = read(file)?;
    let mut all = HeadsCompared { ok: true, ..HeadsCompared::default() };
    for page in heads.chunks(PAGE) {
        let question =
            Question::post(&["audit", "heads", "compare"]).json(&json!({ "heads": page }));
        let compared: HeadsCompared = serde_json::from_value(gateway.ask(question)?)?;
        all.ok &= compared.ok;
        all.found += compared.found;
        all.pruned += compared.pruned;
        all.faults.extend(compared.faults);
    }
    Ok(all)
}

/// Reads one head from each line.
fn read(file: &str) -> anyhow::Result<Vec<Value>> {
    let text = input::read(file, LONGEST_FILE + 1)?;
    if text.len() as u64 > LONGEST_FILE {
        bail!("`{file}` is longer than {} MiB\nhint: split it", LONGEST_FILE >> 20);
    }
    let text = String::from_utf8(text).with_context(|| format!("`{file}` is not valid UTF-8"))?;
    let mut heads = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let head = serde_json::from_str::<Value>(line).ok().filter(is_head);
        let head = head.with_context(|| {
            format!(
                "line {number} of `{file}` is not an exported head\nhint: if its end was never written, remove the line"
            )
        })?;
        heads.push(head);
    }
    if heads.is_empty() {
        bail!("there is no head in `{file}`");
    }
    Ok(heads)
}

fn is_head(value: &Value) -> bool {
    value.get("head") == Some(&json!(1)) && value.get("signature").is_some_and(Value::is_string)
}
