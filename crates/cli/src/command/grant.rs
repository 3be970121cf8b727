//! `sluice grant`: manages the grants of a running gateway.

mod access;
mod edit;
mod issued;
mod lacking;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use sluice_store::Name;

use crate::{
    api::{Gateway, Question, with_gateway},
    output::{BAD, Cell, Done, GOOD, HELD, print, print_json, remark, table, visible},
};

#[derive(Debug, Subcommand)]
pub(crate) enum GrantCommand {
    /// Create a grant and print its token, which is shown only once
    Create(Create),
    /// List the grants
    List(ListGrants),
    /// Show one grant, or what it may call
    Show(show::ShowGrant),
    /// Change the label, servers, policy, principal or expiry of a grant; its token stays the same
    Edit(edit::EditGrant),
    /// Replace a grant's token
    Rotate(Rotate),
    /// Revoke a grant permanently
    Revoke(OneGrant),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The servers it is for
    #[arg(required = true, value_name = "SERVER", value_delimiter = ',', value_parser = Name::new)]
    servers: Vec<Name>,
    /// A label for people
    #[arg(value_parser = Name::new)]
    label: Name,
    /// The policy's name, which is looked up on each server
    #[arg(long, value_name = "NAME", value_parser = Name::new)]
    policy: Name,
    /// Create it even if a server does not have the policy yet, and denies everything until then
    #[arg(long)]
    allow_missing: bool,
    /// When it expires: after a duration such as 30d, or at a time such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    expires: Option<String>,
    /// The person or agent that it belongs to
    #[arg(long, value_name = "WHO")]
    principal: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

/// What is printed of a new token.
#[derive(Debug, Args)]
struct Shown {
    /// Print the token in the configuration for clients, too
    #[arg(long, conflicts_with = "json")]
    show_config: bool,
    /// Print the grant with its token as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// The grant's id or label
    id: String,
    /// How long the old token still works, such as 10m; without this it stops at once
    #[arg(long, value_name = "SPAN")]
    overlap: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
pub(crate) struct ListGrants {
    /// Print {"grants"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OneGrant {
    /// The grant's id or label
    id: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// A grant, as the API shows it.
#[derive(Debug, Deserialize)]
struct Grant {
    id: String,
    label: String,
    servers: Vec<String>,
    policy: String,
    principal: Option<String>,
    state: String,
    created_at: String,
    created_by: Option<String>,
    expires_at: Option<String>,
    last_used: Option<String>,
}

pub(crate) fn run(command: GrantCommand, data: Option<PathBuf>) -> anyhow::Result<Done> {
    match command {
        GrantCommand::Create(create) => with_gateway(data, |gateway| create.run(gateway)),
        GrantCommand::List(ListGrants { json }) => {
            with_gateway(data, |gateway| list(gateway, json))
        }
        GrantCommand::Show(show) => with_gateway(data, |gateway| show.run(gateway)),
        GrantCommand::Edit(edit) => with_gateway(data, |gateway| edit.run(gateway)),
        GrantCommand::Rotate(rotate) => with_gateway(data, |gateway| rotate.run(gateway)),
        GrantCommand::Revoke(one) => with_gateway(data, |gateway| revoke(gateway, &one)),
    }
}

impl Create {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let servers: Vec<_> = self.servers.iter().map(Name::to_string).collect();
        let lacking = lacking::find(gateway, &servers, self.policy.as_str())?;
        if let Some(first) = lacking.first()
            && !self.allow_missing
        {
            lacking::refuse(first, self.policy.as_str())?;
            return Ok(Done::WithProblems);
        }
        let new = json!({
            "servers": servers,
            "label": self.label.as_str(),
            "policy": self.policy.as_str(),
            "principal": self.principal,
            "expires": self.expires,
        });
        let created = gateway.ask(Question::post(&["grants"]).json(&new))?;
        if !self.shown.json {
            lacking::warn(&lacking, self.policy.as_str())?;
        }
        issued::show(gateway, &created, &self.shown)
    }
}

fn list(gateway: &Gateway, json: bool) -> anyhow::Result<Done> {
    let mut answer = gateway.ask_all(&["grants"], "grants")?;
    let grants = answer.get_mut("grants").map(Value::take).unwrap_or_default();
    if json {
        print_json(&json!({ "grants": grants }))?;
    } else {
        print(&draw(&serde_json::from_value::<Vec<Grant>>(grants)?))?;
    }
    Ok(Done::Well)
}

fn draw(grants: &[Grant]) -> String {
    if grants.is_empty() {
        return "there are no grants\n".into();
    }
    let rows: Vec<_> = grants
        .iter()
        .map(|grant| {
            let style = match grant.state.as_str() {
                "valid" => GOOD,
                "revoked" => BAD,
                _ => HELD,
            };
            [
                Cell::new(&grant.id),
                Cell::new(&grant.label),
                Cell::new(&grant.servers.join(",")),
                Cell::new(&grant.policy),
                Cell::maybe(grant.principal.as_deref()),
                Cell::with_style(&grant.state, style),
                Cell::maybe(grant.expires_at.as_deref()),
                Cell::new(grant.last_used.as_deref().unwrap_or("never")),
                Cell::maybe(grant.created_by.as_deref()),
            ]
        })
        .collect();
    let head = [
        "ID",
        "LABEL",
        "SERVERS",
        "POLICY",
        "PRINCIPAL",
        "STATE",
        "EXPIRES",
        "LAST USED",
        "CREATED BY",
    ];
    table(head, &rows)
}

impl Rotate {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let query: Vec<_> = self.overlap.iter().map(|span| ("overlap", span.clone())).collect();
        let path = ["grants", &self.id, "rotate"];
        let rotated = gateway.ask(Question { query: &query, ..Question::post(&path) })?;
        issued::show(gateway, &rotated, &self.shown)
    }
}

fn revoke(gateway: &Gateway, one: &OneGrant) -> anyhow::Result<Done> {
    gateway.ask(Question::delete(&["grants", &one.id]))?;
    if one.json {
        print_json(&json!({ "id": one.id, "revoked": true }))?;
    } else {
        remark(&format!("{GOOD}ok{GOOD:#}: grant `{}` is revoked\n", visible(&one.id)))?;
    }
    Ok(Done::Well)
}

#[cfg(test)]
mod tests {
    use super::{Grant, draw};

    #[test]
    fn grants_are_listed_with_their_state() {
        let grant = Grant {
            id: "01ARZ3".into(),
            label: "laptop".into(),
            servers: vec!["a".into(), "b".into()],
            policy: "dev".into(),
            principal: None,
            state: "valid".into(),
            created_at: "2027-01-31T12:00:00.000Z".into(),
            created_by: Some("admin".into()),
            expires_at: None,
            last_used: None,
        };
        let plain = anstream::adapter::strip_str(&draw(&[grant])).to_string();
        assert_eq!(
            plain,
            "ID      LABEL   SERVERS  POLICY  PRINCIPAL  STATE  EXPIRES  LAST USED  CREATED BY\n\
             01ARZ3  laptop  a,b      dev     -          valid  -        never      admin\n"
        );
    }
}
