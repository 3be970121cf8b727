//! `sluice policy list`: the active policies, server by server.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use sluice_store::Name;

use crate::{
    api::{Gateway, with_gateway},
    output::{Cell, Done, print, print_json, table},
};

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those of this server
    #[arg(value_parser = Name::new)]
    server: Option<Name>,
    /// Print {"policies", "problems"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
struct Listed {
    server: String,
    name: String,
    version: String,
    format: String,
    source: String,
}

impl List {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        with_gateway(data, |gateway| {
            let policies = match &self.server {
                Some(server) => policies_of(gateway, server.as_str())?,
                None => policies(gateway)?,
            };
            if self.json {
                let problems = gateway.file_problems()?;
                print_json(&json!({ "policies": policies, "problems": problems }))?;
                return Ok(Done::Well);
            }
            let policies = policies.into_iter().map(serde_json::from_value);
            print(&draw(&policies.collect::<Result<Vec<_>, _>>()?))?;
            gateway.warn_of_files()?;
            Ok(Done::Well)
        })
    }
}

/// The policies of all servers.
fn policies(gateway: &Gateway) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    let servers = gateway.ask_all(&["servers"], "servers")?;
    for server in members(&servers, "servers") {
        let Some(name) = server.get("name").and_then(Value::as_str) else { continue };
        found.extend(policies_of(gateway, name)?);
    }
    Ok(found)
}

fn policies_of(gateway: &Gateway, server: &str) -> anyhow::Result<Vec<Value>> {
    let policies = gateway.ask_all(&["servers", server, "policies"], "policies")?;
    Ok(members(&policies, "policies").to_vec())
}

fn members<'v>(answer: &'v Value, key: &str) -> &'v [Value] {
    answer.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn draw(policies: &[Listed]) -> String {
    if policies.is_empty() {
        return "no policy is in force\n".into();
    }
    let rows: Vec<_> = policies
        .iter()
        .map(|one| {
            [&one.server, &one.name, &one.version, &one.format, &one.source]
                .map(|text| Cell::new(text))
        })
        .collect();
    table(["SERVER", "POLICY", "VERSION", "FORMAT", "FROM"], &rows)
}
