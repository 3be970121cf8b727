//! `sluice policy history`: lists the versions of a policy.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use sluice_store::Name;

use crate::{
    api::{Gateway, with_gateway},
    output::{Cell, Done, GOOD, print, print_json, table},
};

#[derive(Debug, Args)]
pub(crate) struct History {
    /// The server it is for
    #[arg(value_parser = Name::new)]
    server: Name,
    /// Its name
    #[arg(value_parser = Name::new)]
    name: Name,
    /// Print {"versions"} with the text of each as JSON
    #[arg(long)]
    json: bool,
}

/// One version, as the API shows it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Version {
    #[serde(rename = "version")]
    pub(super) digest: String,
    pub(super) format: String,
    at: String,
    pub(super) text: String,
}

/// The versions of a policy, the newest first, and the one in force.
pub(super) struct Versions {
    pub(super) all: Vec<Version>,
    pub(super) active: Option<String>,
}

impl Versions {
    pub(super) fn read(gateway: &Gateway, server: &Name, name: &Name) -> anyhow::Result<Versions> {
        let path = ["servers", server.as_str(), "policies", name.as_str(), "versions"];
        let mut answer = gateway.ask_all(&path, "versions")?;
        let all = answer.get_mut("versions").map(Value::take).unwrap_or_default();
        let answer = gateway.ask_all(&["servers", server.as_str(), "policies"], "policies")?;
        let mut policies = answer.get("policies").and_then(Value::as_array).into_iter().flatten();
        let active = policies.find(|policy| policy.get("name") == Some(&name.as_str().into()));
        let active = active.and_then(|policy| Some(policy.get("version")?.as_str()?.to_owned()));
        Ok(Versions { all: serde_json::from_value(all)?, active })
    }
}

impl History {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        with_gateway(data, |gateway| {
            let versions = Versions::read(gateway, &self.server, &self.name)?;
            if self.json {
                let all = versions.all.iter().map(|one| {
                    let is_active = Some(&one.digest) == versions.active.as_ref();
                    json!({
                        "version": one.digest, "at": one.at, "format": one.format,
                        "active": is_active, "text": one.text,
                    })
                });
                print_json(&json!({ "versions": all.collect::<Vec<_>>() }))?;
            } else {
                print(&draw(&versions))?;
            }
            Ok(Done::Well)
        })
    }
}

fn draw(versions: &Versions) -> String {
    if versions.all.is_empty() {
        return "no versions are stored: the configuration file declares this policy\n".into();
    }
    // A text that was put again is a version of its own; only its newest one is in force.
    let in_force =
        versions.all.iter().position(|one| Some(&one.digest) == versions.active.as_ref());
    let rows: Vec<_> = versions
        .all
        .iter()
        .enumerate()
        .map(|(index, one)| {
            let state = if Some(index) == in_force { "in force" } else { "" };
            [Cell::new(&one.digest), Cell::new(&one.at), Cell::with_style(state, GOOD)]
        })
        .collect();
    table(["VERSION", "SINCE", "STATE"], &rows)
}

#[cfg(test)]
mod tests {
    use super::{Version, Versions, draw};

    #[test]
    fn only_the_newest_of_equal_versions_is_in_force() {
        let version = |digest: &str, at: &str| Version {
            digest: digest.into(),
            format: "json".into(),
            at: at.into(),
            text: String::new(),
        };
        let all = vec![version("aa", "12:02"), version("bb", "12:01"), version("aa", "12:00")];
        let text = draw(&Versions { all, active: Some("aa".into()) });
        let plain = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<_> = plain.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "VERSION  SINCE  STATE",
                "aa       12:02  in force",
                "bb       12:01",
                "aa       12:00"
            ]
        );
    }
}
