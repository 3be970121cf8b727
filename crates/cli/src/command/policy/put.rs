//! `sluice policy put`: activates a policy on a server.

use std::path::PathBuf;

use clap::Args;
use http::Method;
use sluice_policy::Format;
use sluice_store::Name;

use super::show_problems;
use crate::input::read_source;
use crate::{
    api::{Question, with_gateway},
    output::{Done, GOOD, print_json, remark, visible},
};

#[derive(Debug, Args)]
pub(crate) struct Put {
    /// The server it is for
    #[arg(value_parser = Name::new)]
    server: Name,
    /// The name that grants refer to
    #[arg(value_parser = Name::new)]
    name: Name,
    /// The policy: JSON, or YAML by its ending; `-` reads standard input
    file: String,
    /// Print the active policy, or {"ok", "problems"}, as JSON
    #[arg(long)]
    json: bool,
}

impl Put {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let source = read_source(&self.file)?;
        // The gateway checks the policy too, but only here can the problem be shown in its text.
        let problems = match source.policy() {
            Ok(policy) => source.failing_tests(&policy).0,
            Err(problems) => problems,
        };
        if !problems.is_empty() {
            return show_problems(&source, &problems, self.json);
        }
        let media_type = match source.format() {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        };
        let path = ["servers", self.server.as_str(), "policies", self.name.as_str()];
        with_gateway(data, |gateway| {
            let put = gateway.ask(Question {
                method: Method::PUT,
                body: Some((media_type, source.text.clone().into())),
                ..Question::get(&path)
            })?;
            if self.json {
                print_json(&put)?;
                return Ok(Done::Well);
            }
            let version = put.get("version").and_then(|version| version.as_str());
            let version = visible(version.unwrap_or("?"));
            let Put { server, name, .. } = &self;
            remark(&format!(
                "{GOOD}ok{GOOD:#}: policy `{name}` is in force on server `{server}` (version {version})\n"
            ))?;
            Ok(Done::Well)
        })
    }
}
