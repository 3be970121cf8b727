//! `sluice policy rollback`: activates an earlier version of a policy.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use http::Method;
use sluice_store::Name;

use super::history::{Version, Versions};
use crate::{
    api::{Question, with_gateway},
    output::{Done, GOOD, print_json, remark, visible},
};

#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The server it is for
    #[arg(value_parser = Name::new)]
    server: Name,
    /// Its name
    #[arg(value_parser = Name::new)]
    name: Name,
    /// The version, or the beginning of it, as `sluice policy history` lists them
    version: String,
    /// Print the active policy as JSON
    #[arg(long)]
    json: bool,
}

impl Rollback {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let Rollback { server, name, .. } = self;
        with_gateway(data, |gateway| {
            let versions = Versions::read(gateway, server, name)?;
            let wanted = self.find(&versions.all)?;
            let media_type =
                if wanted.format == "yaml" { "application/yaml" } else { "application/json" };
            let put = gateway.ask(Question {
                method: Method::PUT,
                body: Some((media_type, wanted.text.clone().into())),
                ..Question::get(&["servers", server.as_str(), "policies", name.as_str()])
            })?;
            if self.json {
                print_json(&put)?;
            } else {
                let version = visible(&wanted.digest);
                remark(&format!(
                    "{GOOD}ok{GOOD:#}: policy `{name}` is in force on server `{server}` (version {version})\n"
                ))?;
            }
            Ok(Done::Well)
        })
    }

    /// The version that the argument names. Versions with the same text count as one.
    fn find<'v>(&self, versions: &'v [Version]) -> anyhow::Result<&'v Version> {
        let Rollback { server, name, version, .. } = self;
        let mut found = versions.iter().filter(|one| one.digest.starts_with(version));
        let Some(first) = found.next().filter(|_| !version.is_empty()) else {
            bail!(
                "policy `{name}` of server `{server}` has no version `{}`\nhint: sluice policy history {server} {name}",
                visible(version)
            );
        };
        if found.any(|other| other.digest != first.digest) {
            bail!("several versions begin with `{}`\nhint: give more of it", visible(version));
        }
        Ok(first)
    }
}
