//! `sluice server edit`: changes a server that was added with `sluice server add`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{ArgGroup, Args};
use serde_json::{Map, Value};
use sluice_config::Environment;
use sluice_store::Name;

use super::{
    add::{headers, read_url},
    command,
};
use crate::{
    api::{Question, with_gateway},
    output::{Done, GOOD, remark},
};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true)
    .args(["url", "headers", "removed_headers", "timeout", "anonymous_policy", "instances"]))]
pub(crate) struct EditServer {
    /// The server's name
    #[arg(value_parser = Name::new)]
    name: Name,
    /// The new URL; `env:NAME` or `file:PATH` for one that contains a secret
    #[arg(long)]
    url: Option<String>,
    /// A header to set, such as `Authorization: Bearer env:NAME`; a value may be `env:NAME` or `file:PATH`
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// A header not to send any more
    #[arg(long = "remove-header", value_name = "NAME")]
    removed_headers: Vec<String>,
    /// How long the server may be silent before a call times out
    #[arg(long, value_name = "SPAN")]
    timeout: Option<String>,
    /// The policy for callers without a token; `none` for no such callers
    #[arg(long, value_name = "POLICY")]
    anonymous_policy: Option<String>,
    /// Of a command: one process for all clients, or one for each session
    #[arg(long, value_parser = ["shared", "session"])]
    instances: Option<String>,
}

impl EditServer {
    pub(super) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let done = match command::added_file(data.clone(), &self.name) {
            Some(file) => self.edit_file(&file, data)?,
            None => self.edit_stored(data)?,
        };
        if done == Done::Well {
            remark(&format!("{GOOD}ok{GOOD:#}: server `{}` is changed\n", self.name))?;
        }
        Ok(done)
    }

    fn edit_file(&self, file: &Path, data: Option<PathBuf>) -> anyhow::Result<Done> {
        if self.url.is_some() || !self.headers.is_empty() || !self.removed_headers.is_empty() {
            bail!(
                "server `{name}` is a command, which has no URL and no headers\nhint: edit `{}`, or use `sluice server remove {name}` and add it anew",
                file.display(),
                name = self.name
            );
        }
        let changes = [
            ("timeout", self.timeout.as_deref()),
            ("instances", self.instances.as_deref()),
            ("anonymous_policy", self.anonymous_policy.as_deref()),
        ];
        command::edit(&self.name, file, &changes, data)
    }

    fn edit_stored(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        if self.instances.is_some() {
            bail!("`--instances` is for commands that were added on this machine");
        }
        let patch = self.patch()?.into();
        with_gateway(data, |gateway| {
            gateway.ask(Question::patch(&["servers", self.name.as_str()]).json(&patch))?;
            Ok(Done::Well)
        })
    }

    /// The changes, as the API takes them.
    fn patch(&self) -> anyhow::Result<Map<String, Value>> {
        let mut patch = Map::new();
        let environment = Environment::of_process();
        if let Some(url) = &self.url {
            patch.insert("url".into(), read_url(url, &environment)?.expose().into());
        }
        let timeout = self.timeout.iter();
        patch.extend(timeout.map(|span| ("timeout".to_owned(), span.as_str().into())));
        let policy = self.anonymous_policy.as_deref();
        let policy = policy.map(|name| if name == "none" { Value::Null } else { name.into() });
        patch.extend(policy.map(|policy| ("anonymous_policy".to_owned(), policy)));
        let mut changed = Map::new();
        for (name, value) in headers(&self.headers, &environment)? {
            changed.insert(name, value.expose().into());
        }
        changed.extend(self.removed_headers.iter().map(|name| (name.clone(), Value::Null)));
        if !changed.is_empty() {
            patch.insert("headers".into(), changed.into());
        }
        Ok(patch)
    }
}
