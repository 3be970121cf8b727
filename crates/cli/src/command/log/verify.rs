//! `sluice log verify`: checks the log's hash chains.

use std::fmt::Write as _;

use clap::Args;
use serde::Deserialize;

use crate::{
    api::{Gateway, Question},
    output::{BAD, Done, GOOD, print, print_json, visible},
};

#[derive(Debug, Args)]
pub(super) struct Verify {
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
}

#[derive(Debug, Deserialize)]
struct Fault {
    message: String,
}

impl Verify {
    pub(super) fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let answer = gateway.ask(Question::post(&["audit", "verify"]))?;
        let verified: Verified = serde_json::from_value(answer.clone())?;
        if self.json {
            print_json(&answer)?;
        } else {
            print(&draw_result(&verified))?;
        }
        Ok(Done::well_if(verified.ok))
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
    text
}

#[cfg(test)]
mod tests {
    use super::{Fault, Verified, draw_result};

    #[test]
    fn faults_are_listed_one_by_one() {
        let whole = Verified { ok: true, records: 3, pruned_through: Some(7), faults: Vec::new() };
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        let expected = "ok: 3 records, after 7 that were pruned, each as it was written\n";
        assert_eq!(plain(draw_result(&whole)), expected);
        let faults = vec![Fault { message: "record 2 was changed".into() }];
        let broken = Verified { ok: false, records: 3, pruned_through: None, faults };
        let expected = "record 2 was changed\nnot as it was written: 1 faults in 3 records\n";
        assert_eq!(plain(draw_result(&broken)), expected);
    }
}
