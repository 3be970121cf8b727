//! `sluice policy show`: prints the text of an active policy.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use sluice_store::Name;

use crate::{
    api::{Question, with_gateway},
    output::{Done, print_json, print_text},
};

#[derive(Debug, Args)]
pub(crate) struct ShowPolicy {
    /// The server it is for
    #[arg(value_parser = Name::new)]
    server: Name,
    /// Its name
    #[arg(value_parser = Name::new)]
    name: Name,
    /// Print {"server", "name", "version", "format", "source", "text"} as JSON
    #[arg(long)]
    json: bool,
}

impl ShowPolicy {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let path = ["servers", self.server.as_str(), "policies", self.name.as_str()];
        with_gateway(data, |gateway| {
            let policy = gateway.ask(Question::get(&path))?;
            if self.json {
                print_json(&policy)?;
            } else {
                let text = policy.get("text").and_then(Value::as_str).unwrap_or_default();
                print_text(text)?;
            }
            Ok(Done::Well)
        })
    }
}
