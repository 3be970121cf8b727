//! `sluice policy remove`: deactivates a policy.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use sluice_store::Name;

use crate::{
    api::{Question, with_gateway},
    output::{Done, GOOD, print_json, remark},
};

#[derive(Debug, Args)]
pub(crate) struct RemovePolicy {
    /// The server it is for
    #[arg(value_parser = Name::new)]
    server: Name,
    /// Its name
    #[arg(value_parser = Name::new)]
    name: Name,
    /// Print {"server", "name", "removed"} as JSON
    #[arg(long)]
    json: bool,
}

impl RemovePolicy {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let RemovePolicy { server, name, json } = self;
        with_gateway(data, |gateway| {
            let path = ["servers", server.as_str(), "policies", name.as_str()];
            gateway.ask(Question::delete(&path))?;
            if *json {
                let removed =
                    json!({ "server": server.as_str(), "name": name.as_str(), "removed": true });
                print_json(&removed)?;
            } else {
                remark(&format!(
                    "{GOOD}ok{GOOD:#}: policy `{name}` is not in force on server `{server}` any more; grants with it are denied there\n"
                ))?;
            }
            Ok(Done::Well)
        })
    }
}
