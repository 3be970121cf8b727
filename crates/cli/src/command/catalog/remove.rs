//! `sluice catalog remove`.

use anyhow::{anyhow, bail};
use clap::Args;
use serde_json::json;
use sluice_catalog::{Catalog, Server, Standing};

use crate::output::{Done, GOOD, print_json, remark, visible};

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Imported servers, by name or slug
    #[arg(required = true, value_name = "SERVER")]
    servers: Vec<String>,
    /// Print {"removed": [{"server", "shipped"}]} as JSON
    #[arg(long)]
    json: bool,
}

impl Remove {
    pub(crate) fn run(&self, mut catalog: Catalog) -> anyhow::Result<Done> {
        // Looks up all names first, so that a typo removes nothing.
        let found: anyhow::Result<Vec<Server>> =
            self.servers.iter().map(|name| find_import(&catalog, name)).collect();
        let mut servers = found?;
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        servers.dedup_by(|one, other| one.name == other.name);
        catalog.remove(&servers)?;
        let mut removed = Vec::new();
        for Server { name, .. } in &servers {
            let is_back = catalog.server(name)?.is_some_and(|server| server.name == *name);
            removed.push(json!({ "server": name, "shipped": is_back }));
            if !self.json {
                let back = if is_back { "; the shipped entry is used again" } else { "" };
                remark(&format!("{GOOD}ok{GOOD:#}: {} removed{back}\n", visible(name)))?;
            }
        }
        if self.json {
            print_json(&json!({ "removed": removed }))?;
        }
        Ok(Done::Well)
    }
}

fn find_import(catalog: &Catalog, name: &str) -> anyhow::Result<Server> {
    let missing = || {
        anyhow!(
            "there is no server `{name}` in the catalogue\nhint: `sluice catalog search` finds servers by words"
        )
    };
    let server = catalog.server(name)?.ok_or_else(missing)?;
    match server.standing {
        Standing::Own => Ok(server),
        Standing::Shipped => {
            bail!("`{name}` ships with the program: only what was imported can be removed")
        }
    }
}
