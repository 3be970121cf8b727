//! `sluice tokens`: API tokens, with which programs act in the name of a person.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use sluice_store::Name;

use super::people::roles;
use crate::{
    api::{Gateway, Question, with_gateway},
    output::{BAD, Cell, Done, GOOD, HELD, STRONG, print, print_json, remark, table, visible},
};

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// List API tokens
    List(ListTokens),
    /// Create an API token and print it, which is shown only once
    Create(CreateToken),
    /// Revoke an API token permanently
    Revoke(RevokeToken),
}

#[derive(Debug, Args)]
pub(crate) struct ListTokens {
    /// Print {"tokens"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CreateToken {
    /// What it is for
    label: String,
    /// The login of the person that it acts for; needed with the admin token
    #[arg(long, value_name = "LOGIN")]
    person: Option<String>,
    /// At most this role [default: that of the person]
    #[arg(long, value_parser = roles())]
    role: Option<String>,
    /// Limit it to this server; may be given several times
    #[arg(long = "server", value_name = "SERVER", value_parser = Name::new)]
    servers: Vec<Name>,
    /// When it expires: after a duration such as 30d, or at a time [default: 90d]
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    /// Print the token with its properties as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeToken {
    /// The id that `sluice tokens list` shows
    id: String,
}

/// An API token, as the API shows it.
#[derive(Debug, Deserialize)]
struct ApiToken {
    id: String,
    login: Option<String>,
    label: String,
    role: String,
    state: String,
    last_used: Option<String>,
    expires_at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Issued {
    id: String,
    label: String,
    token: String,
}

pub(crate) fn run(command: &TokensCommand, data: Option<PathBuf>) -> anyhow::Result<Done> {
    with_gateway(data, |gateway| match command {
        TokensCommand::List(list) => list.run(gateway),
        TokensCommand::Create(create) => create.run(gateway),
        TokensCommand::Revoke(revoke) => revoke.run(gateway),
    })
}

impl ListTokens {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let mut answer = gateway.ask_all(&["tokens"], "tokens")?;
        let tokens = answer.get_mut("tokens").map(Value::take).unwrap_or_default();
        if self.json {
            print_json(&json!({ "tokens": tokens }))?;
            return Ok(Done::Well);
        }
        print(&draw(&serde_json::from_value::<Vec<ApiToken>>(tokens)?))?;
        Ok(Done::Well)
    }
}

fn draw(tokens: &[ApiToken]) -> String {
    if tokens.is_empty() {
        return "no API tokens\n".into();
    }
    let rows: Vec<_> = tokens
        .iter()
        .map(|token| {
            let state = match &*token.state {
                "valid" => Cell::with_style("valid", GOOD),
                "expired" => Cell::with_style("expired", HELD),
                other => Cell::with_style(other, BAD),
            };
            [
                Cell::new(&token.id),
                Cell::maybe(token.login.as_deref()),
                Cell::new(&token.label),
                Cell::new(&token.role),
                state,
                Cell::maybe(token.last_used.as_deref()),
                Cell::maybe(token.expires_at.as_deref()),
            ]
        })
        .collect();
    table(["id", "person", "label", "role", "state", "last used", "expires"], &rows)
}

impl CreateToken {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let names: Vec<_> = self.servers.iter().map(Name::as_str).collect();
        let new = json!({
            "label": self.label,
            "login": self.person,
            "role": self.role,
            "servers": (!names.is_empty()).then_some(names),
            "expires": self.expires,
        });
        let answer = gateway.ask(Question::post(&["tokens"]).json(&new))?;
        if self.json {
            print_json(&answer)?;
            return Ok(Done::Well);
        }
        let issued: Issued = serde_json::from_value(answer)?;
        let (label, id) = (visible(&issued.label), visible(&issued.id));
        remark(&format!(
            "{GOOD}ok{GOOD:#}: API token `{label}` ({id})\n\n{STRONG}Token (shown once):{STRONG:#}\n"
        ))?;
        print(&format!("{}\n", visible(&issued.token)))?;
        Ok(Done::Well)
    }
}

impl RevokeToken {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        gateway.ask(Question::delete(&["tokens", &self.id]))?;
        remark(&format!("{GOOD}ok{GOOD:#}: API token {} is revoked\n", visible(&self.id)))?;
        Ok(Done::Well)
    }
}
