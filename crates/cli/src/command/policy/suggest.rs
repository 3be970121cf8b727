//! `sluice policy suggest`: prints a recommended policy for a server's tools.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use sluice_store::Name;

use crate::{
    api::{Question, with_gateway},
    output::{Done, print_json, print_json_text, remark, visible},
};

#[derive(Debug, Args)]
pub(crate) struct Suggest {
    /// The server it is for
    #[arg(value_parser = Name::new)]
    server: Name,
    /// Print {"server", "policy", "effect"} as JSON
    #[arg(long)]
    json: bool,
}

impl Suggest {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        with_gateway(data, |gateway| {
            let wanted = json!({ "server": self.server.as_str() });
            let suggested = gateway.ask(Question::post(&["policies", "suggest"]).json(&wanted))?;
            if self.json {
                print_json(&suggested)?;
                return Ok(Done::Well);
            }
            let policy = suggested.get("policy").context("the gateway suggests nothing")?;
            print_json_text(&format!("{policy:#}\n"))?;
            let effect = suggested.get("effect").and_then(Value::as_array).into_iter().flatten();
            for line in effect.filter_map(Value::as_str) {
                remark(&format!("{}\n", visible(line)))?;
            }
            Ok(Done::Well)
        })
    }
}
