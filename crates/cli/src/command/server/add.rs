//! `sluice server add`: adds a server to the gateway.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};
use sluice_store::{Name, Secret};

use crate::{
    api::{Question, with_gateway},
    output::{Done, GOOD, print_json, remark},
};
use sluice_config::{Environment, secret};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").required(true).args(["url", "command"]))]
pub(crate) struct Add {
    /// The server's name
    #[arg(value_parser = Name::new)]
    name: Name,
    /// The server's URL, such as `https://mcp.example.com/mcp`; `env:NAME` or `file:PATH` for one that contains a secret
    #[arg(long)]
    url: Option<String>,
    /// A header to send, such as `Authorization: Bearer env:NAME`; a value may be `env:NAME` or `file:PATH`
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// A variable for the command, such as `KEY=env:NAME`; a value may be `env:NAME` or `file:PATH`
    #[arg(long = "env", value_name = "NAME=VALUE", conflicts_with = "url")]
    env: Vec<String>,
    /// Start one process per session instead of one for all clients
    #[arg(long, conflicts_with = "url")]
    session: bool,
    /// How long the server may be silent before a call times out [default: 60s]
    #[arg(long, value_name = "SPAN")]
    timeout: Option<String>,
    /// Print the server as JSON
    #[arg(long)]
    json: bool,
    /// The server's command and its arguments
    #[arg(last = true, conflicts_with = "headers")]
    command: Vec<String>,
}

impl Add {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        if !self.command.is_empty() {
            let wanted = super::command::Wanted {
                command: self.command,
                env: self.env,
                is_per_session: self.session,
                timeout: self.timeout,
            };
            return super::command::add(&self.name, wanted, data, self.json);
        }
        let environment = Environment::of_process();
        let url = self.url.as_deref().map(|url| read_url(url, &environment)).transpose()?;
        let headers = headers(&self.headers, &environment)?;
        let shown = |(name, value): (String, Secret)| (name, value.expose().into());
        let headers: Map<String, Value> = headers.into_iter().map(shown).collect();
        let new = json!({
            "name": self.name.as_str(),
            "url": url.as_ref().map(Secret::expose),
            "headers": headers,
            "timeout": self.timeout,
        });
        with_gateway(data, |gateway| {
            let added = gateway.ask(Question::post(&["servers"]).json(&new))?;
            if self.json {
                print_json(&added)?;
            } else {
                let name = &self.name;
                remark(&format!(
                    "{GOOD}ok{GOOD:#}: server `{name}` is added\nhint: say what may be called there with `sluice policy put {name} NAME FILE`\n"
                ))?;
            }
            Ok(Done::Well)
        })
    }
}

/// Reads a URL, or what names one. Error messages never contain it.
pub(super) fn read_url(given: &str, environment: &Environment) -> anyhow::Result<Secret> {
    secret::read_argument(given, environment).map_err(|message| anyhow!("`--url`: {message}"))
}

/// Parses headers. Error messages never contain their values.
pub(in crate::command) fn headers(
    given: &[String],
    environment: &Environment,
) -> anyhow::Result<Vec<(String, Secret)>> {
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for header in given {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| anyhow!("`--header` must be `NAME: VALUE`, such as 'X-Key: env:KEY'"))?;
        let value = secret::read_argument(value.trim(), environment)
            .map_err(|message| anyhow!("header `{name}`: {message}"))?;
        let name = name.trim();
        if headers.iter().any(|(other, _)| other == name) {
            bail!("header `{name}` is given twice");
        }
        headers.push((name.to_owned(), value));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::headers;
    use sluice_config::Environment;

    #[test]
    fn header_values_are_resolved_by_the_command() {
        let environment = Environment::from([("KEY", "sesame")]);
        let given = ["Authorization: Bearer a:b", "X-Key: env:KEY", "X-Auth: Bearer env:KEY"];
        let read = headers(&given.map(String::from), &environment).unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (&**name, value.expose())).collect();
        let expected =
            [("Authorization", "Bearer a:b"), ("X-Key", "sesame"), ("X-Auth", "Bearer sesame")];
        assert_eq!(read, expected);
        for wrong in [["X-Key"].as_slice(), &["X: env:NONE"], &["X: a", "X: b"]] {
            let given: Vec<_> = wrong.iter().map(ToString::to_string).collect();
            assert!(headers(&given, &environment).is_err(), "{wrong:?}");
        }
    }
}
