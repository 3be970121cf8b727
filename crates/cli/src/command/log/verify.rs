//! `sluice log verify`: checks the log's hash chain and its head, and compares it with heads that
//! were exported earlier.

use std::fmt::Write as _;

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::heads::{self, HeadsCompared};
use crate::{
    api::{Gateway, Question},
    output::{BAD, Done, GOOD, print, print_json, visible},
};

/// Faults of heads that are printed, unless as JSON.
const MOST_SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// Also compare the log with heads that were exported earlier, one a line; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    head: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
struct Verified {
    ok: bool,
    records: u64,
    pruned_through: Option<i64>,
    faults: Vec<Fault>,
    head: Option<Head>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    message: String,
}

#[derive(Debug, Deserialize)]
struct Head {
    seq: i64,
    hash: String,
    incarnation: String,
    signer: String,
}

impl Verify {
    pub(super) fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let compared = self.head.as_ref().map(|file| heads::compare(gateway, file)).transpose()?;
        let mut answer = gateway.ask(Question::post(&["audit", "verify"]))?;
        let verified: Verified = serde_json::from_value(answer.clone())?;
        let is_well = verified.ok && compared.as_ref().is_none_or(|compared| compared.ok);
        if self.json {
            if let (Some(compared), Some(answer)) = (compared, answer.as_object_mut()) {
                answer.insert("ok".into(), is_well.into());
                answer.insert("heads".into(), serde_json::to_value(compared)?);
            }
            print_json(&answer)?;
        } else {
            let compared = compared.as_ref().map(draw_heads).unwrap_or_default();
            print(&(draw_result(&verified) + &compared))?;
        }
        Ok(Done::well_if(is_well))
    }
}

fn draw_result(verified: &Verified) -> String {
    let mut text = String::new();
    for Fault { message } in &verified.faults {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", visible(message));
    }
    let records = verified.records;
    let pruned = verified
        .pruned_through
        .map(|last| format!(", after {last} that were pruned"))
        .unwrap_or_default();
    let _ = if verified.ok {
        writeln!(text, "{GOOD}ok{GOOD:#}: {records} records{pruned}, each as it was written")
    } else {
        let faults = verified.faults.len();
        writeln!(
            text,
            "{BAD}not as it was written{BAD:#}: {faults} faults in {records} records{pruned}"
        )
    };
    if let Some(Head { seq, hash, incarnation, signer }) = &verified.head {
        for (name, value) in [
            ("head", format!("record {seq}")),
            ("hash", visible(hash)),
            ("incarnation", visible(incarnation)),
            ("signer", visible(signer)),
        ] {
            let _ = writeln!(text, "  {name:<11} {value}");
        }
    }
    text
}

/// The result of comparing exported heads.
fn draw_heads(compared: &HeadsCompared) -> String {
    let HeadsCompared { ok, found, pruned, faults } = compared;
    let mut text = String::new();
    for fault in faults.iter().take(MOST_SHOWN) {
        let message = fault.get("message").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(text, "{}", visible(message));
    }
    if let Some(more @ 1..) = faults.len().checked_sub(MOST_SHOWN) {
        let _ = writeln!(text, "and {more} more");
    }
    let pruned = match pruned {
        0 => String::new(),
        pruned => format!(", {pruned} of records that were pruned"),
    };
    let _ = if *ok {
        writeln!(text, "{GOOD}ok{GOOD:#}: {found} exported heads are in the log{pruned}")
    } else {
        let faults = faults.len();
        writeln!(
            text,
            "{BAD}not as it was exported{BAD:#}: {faults} heads contradict the log, {found} are in it{pruned}"
        )
    };
    text
}

#[cfg(test)]
mod tests {
    use super::{Fault, Head, HeadsCompared, Verified, draw_heads, draw_result};

    #[test]
    fn faults_are_listed_one_by_one() {
        let head =
            Head { seq: 10, hash: "ab".into(), incarnation: "cd".into(), signer: "ef".into() };
        let (pruned_through, faults) = (Some(7), Vec::new());
        let whole = Verified { ok: true, records: 3, pruned_through, faults, head: Some(head) };
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        let expected = "ok: 3 records, after 7 that were pruned, each as it was written
  head        record 10
  hash        ab
  incarnation cd
  signer      ef
";
        assert_eq!(plain(draw_result(&whole)), expected);
        let faults = vec![Fault { message: "record 2 was changed".into() }];
        let broken = Verified { ok: false, records: 3, pruned_through: None, faults, head: None };
        let expected = "record 2 was changed\nnot as it was written: 1 faults in 3 records\n";
        assert_eq!(plain(draw_result(&broken)), expected);
    }

    #[test]
    fn faults_of_heads_are_listed_up_to_a_number() {
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        let whole = HeadsCompared { ok: true, found: 3, pruned: 2, faults: Vec::new() };
        let expected = "ok: 3 exported heads are in the log, 2 of records that were pruned\n";
        assert_eq!(plain(draw_heads(&whole)), expected);
        let faults = vec![serde_json::json!({ "seq": 9, "message": "missing" }); 22];
        let drawn = plain(draw_heads(&HeadsCompared { ok: false, found: 1, pruned: 0, faults }));
        assert_eq!(drawn.matches("missing\n").count(), 20, "{drawn}");
        let end = "and 2 more\nnot as it was exported: 22 heads contradict the log, 1 are in it\n";
        assert!(drawn.ends_with(end), "{drawn}");
    }
}
