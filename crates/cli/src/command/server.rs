//! `sluice server`: manages the servers of a running gateway.

mod add;
mod command;
mod edit;
mod leftovers;
mod show;

pub(super) use add::headers;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use sluice_store::Name;

use crate::{
    api::{Gateway, Question, with_gateway},
    output::{Cell, Done, GOOD, print, print_json, remark, table},
};

#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// List the servers
    List(ListServers),
    /// Show one server
    Show(OneServer),
    /// List a server's tools
    Tools(show::ServerTools),
    /// Add a server
    Add(add::Add),
    /// Change a server that was added with `server add`; its policies stay attached
    Edit(edit::EditServer),
    /// Reload a server's list of tools
    Refresh(OneServer),
    /// Remove a server and its policies
    Remove(OneServer),
}

#[derive(Debug, Args)]
pub(crate) struct ListServers {
    /// Print {"servers", "problems"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OneServer {
    /// The server's name
    #[arg(value_parser = Name::new)]
    name: Name,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// A server, as the API shows it.
#[derive(Debug, Deserialize)]
struct Server {
    name: String,
    source: String,
    transport: String,
    url: Option<String>,
    builtin: Option<String>,
    command: Option<Vec<String>>,
    instances: Option<String>,
    #[serde(default)]
    env: Vec<String>,
    headers: Vec<String>,
    timeout: String,
    anonymous_policy: Option<String>,
}

impl Server {
    /// The server's URL or command.
    fn place(&self) -> String {
        match (&self.url, &self.builtin, &self.command) {
            (Some(url), ..) => url.clone(),
            (None, Some(builtin), _) => format!("built in: {builtin}"),
            (None, None, Some(command)) => command.join(" "),
            (None, None, None) => self.transport.clone(),
        }
    }
}

pub(crate) fn run(command: ServerCommand, data: Option<PathBuf>) -> anyhow::Result<Done> {
    match command {
        ServerCommand::Add(add) => add.run(data),
        ServerCommand::Edit(edit) => edit.run(data),
        ServerCommand::List(ListServers { json }) => {
            with_gateway(data, |gateway| list(gateway, json))
        }
        ServerCommand::Show(one) => with_gateway(data, |gateway| show::show(gateway, &one)),
        ServerCommand::Tools(tools) => with_gateway(data, |gateway| show::tools(gateway, &tools)),
        ServerCommand::Refresh(one) => with_gateway(data, |gateway| show::refresh(gateway, &one)),
        ServerCommand::Remove(one) => match command::added_file(data.clone(), &one.name) {
            Some(file) => command::remove(&file, data, &one),
            None => with_gateway(data, |gateway| remove(gateway, &one)),
        },
    }
}

fn list(gateway: &Gateway, json: bool) -> anyhow::Result<Done> {
    let mut answer = gateway.ask_all(&["servers"], "servers")?;
    let servers = answer.get_mut("servers").map(Value::take).unwrap_or_default();
    if json {
        let problems = gateway.file_problems()?;
        print_json(&json!({ "servers": servers, "problems": problems }))?;
        return Ok(Done::Well);
    }
    print(&draw(&serde_json::from_value::<Vec<Server>>(servers)?))?;
    gateway.warn_of_files()?;
    Ok(Done::Well)
}

fn draw(servers: &[Server]) -> String {
    if servers.is_empty() {
        return "no server is declared or added\n".into();
    }
    let rows: Vec<_> = servers
        .iter()
        .map(|one| {
            let texts = [&one.name, &one.place(), &one.timeout, &one.source];
            texts.map(|text| Cell::new(text))
        })
        .collect();
    table(["SERVER", "PLACE", "TIMEOUT", "FROM"], &rows)
}

fn remove(gateway: &Gateway, one: &OneServer) -> anyhow::Result<Done> {
    gateway.ask(Question::delete(&["servers", one.name.as_str()]))?;
    report_removed(one)
}

fn report_removed(one: &OneServer) -> anyhow::Result<Done> {
    if one.json {
        print_json(&json!({ "name": one.name.as_str(), "removed": true }))?;
    } else {
        remark(&format!("{GOOD}ok{GOOD:#}: server `{}` is removed\n", one.name))?;
    }
    Ok(Done::Well)
}

#[cfg(test)]
mod tests {
    use super::{Server, draw};

    #[test]
    fn servers_are_listed_with_their_url_or_command() {
        let server = |name: &str, builtin: Option<&str>| Server {
            name: name.into(),
            source: "file".into(),
            transport: "http".into(),
            url: builtin.is_none().then(|| "https://a.example.com/\u{1b}".into()),
            builtin: builtin.map(Into::into),
            command: None,
            instances: None,
            env: Vec::new(),
            headers: Vec::new(),
            timeout: "60s".into(),
            anonymous_policy: None,
        };
        let text = draw(&[server("a", None), server("notes", Some("demo"))]);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain,
            "SERVER  PLACE                         TIMEOUT  FROM\n\
             a       https://a.example.com/\\u{1b}  60s      file\n\
             notes   built in: demo                60s      file\n"
        );
        assert_eq!(draw(&[]), "no server is declared or added\n");
    }
}
