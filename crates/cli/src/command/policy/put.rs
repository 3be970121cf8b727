//! `sluice policy put`: activates a policy on a server.

use std::path::PathBuf;

use clap::Args;
use http::Method;
use sluice_config::Source;
use sluice_policy::{Format, Policy, Problem};
use sluice_store::Name;

use super::{bases::ServerPolicies, check::show_warnings, show_problems};
use crate::input::{read_source, server_tools};
use crate::{
    api::{Question, with_gateway},
    output::{Done, GOOD, HELD, print_json, remark, visible},
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
    /// Refuse it if it has warnings
    #[arg(long)]
    strict: bool,
    /// Print the active policy, or {"ok", "problems"}, as JSON
    #[arg(long)]
    json: bool,
}

impl Put {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let source = read_source(&self.file)?;
        // The gateway checks the policy too, but only here can problems be shown in its text.
        let extends = source.extends_another();
        let problems = if extends { Vec::new() } else { find_problems(&source, source.policy()) };
        if !problems.is_empty() {
            return show_problems(&source, &problems, self.json);
        }
        let media_type = match source.format() {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        };
        let path = ["servers", self.server.as_str(), "policies", self.name.as_str()];
        with_gateway(data, |gateway| {
            if extends {
                let policies = ServerPolicies::read(gateway, &self.server)?;
                let compiled = policies.compile_stored(&source, &self.name);
                let problems = find_problems(&source, compiled);
                if !problems.is_empty() {
                    return show_problems(&source, &problems, self.json);
                }
            }
            let tools = server_tools(gateway, &self.server);
            if let Err(error) = &tools {
                remark(&format!(
                    "{HELD}note{HELD:#}: the policy was not compared with the tools of server `{}`: {}\n",
                    self.server,
                    visible(&error.to_string())
                ))?;
            }
            if !show_warnings(&source, tools.ok().as_deref(), self.strict)? {
                return Ok(Done::WithProblems);
            }
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

fn find_problems(source: &Source, compiled: Result<Policy, Vec<Problem>>) -> Vec<Problem> {
    match compiled {
        Ok(policy) => source.failing_tests(&policy).0,
        Err(problems) => problems,
    }
}
