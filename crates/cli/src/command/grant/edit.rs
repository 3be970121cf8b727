//! `sluice grant edit`: changes a grant, but not its token.

use clap::{ArgGroup, Args};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use sluice_store::Name;

use super::{
    Grant,
    lacking::{self, Lacking},
    show,
};
use crate::{
    api::{Gateway, Question},
    output::{Done, GOOD, print_json, remark},
};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true)
    .args(["label", "servers", "policy", "principal", "expires"]))]
pub(crate) struct EditGrant {
    /// The grant's id or label
    id: String,
    /// The new label
    #[arg(long, value_name = "LABEL", value_parser = Name::new)]
    label: Option<Name>,
    /// The servers it is for from now on, separated by commas or given one by one
    #[arg(long = "server", value_name = "SERVER", value_delimiter = ',', value_parser = Name::new)]
    servers: Vec<Name>,
    /// The name of the policy that decides from now on
    #[arg(long, value_name = "NAME", value_parser = Name::new)]
    policy: Option<Name>,
    /// The person or agent that it belongs to; `none` for nobody
    #[arg(long, value_name = "WHO")]
    principal: Option<String>,
    /// When it expires: a duration from now such as 30d, a time such as 2027-01-31T12:00:00Z, or
    /// `never`
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    expires: Option<String>,
    /// Change it even if a server does not have the policy, and denies everything until it has
    #[arg(long)]
    allow_missing: bool,
    /// Print the grant as JSON
    #[arg(long)]
    json: bool,
}

impl EditGrant {
    pub(super) fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let lacking = self.find_lacking(gateway)?;
        if let Some((first, policy)) = lacking.filter(|_| !self.allow_missing) {
            lacking::refuse(&first, &policy)?;
            return Ok(Done::WithProblems);
        }
        let patch = self.patch().into();
        let edited = gateway.ask(Question::patch(&["grants", &self.id]).json(&patch))?;
        if self.json {
            print_json(&edited)?;
            return Ok(Done::Well);
        }
        remark(&format!("{GOOD}ok{GOOD:#}: the grant is now\n"))?;
        show::print_grant(&edited)
    }

    /// The first server that would deny everything after the change, with the policy that it lacks.
    fn find_lacking(&self, gateway: &Gateway) -> anyhow::Result<Option<(Lacking, String)>> {
        if self.policy.is_none() && self.servers.is_empty() {
            return Ok(None);
        }
        let before = gateway.ask(Question::get(&["grants", &self.id]))?;
        let grant = Grant::deserialize(before)?;
        let policy = self.policy.as_ref().map_or(grant.policy, Name::to_string);
        let servers = match &*self.servers {
            [] => grant.servers,
            servers => servers.iter().map(Name::to_string).collect(),
        };
        // A change of what is refused anyway is refused with its own reason.
        if grant.created_by.is_none() || grant.state == "revoked" {
            return Ok(None);
        }
        let first = lacking::find(gateway, &servers, &policy)?.into_iter().next();
        Ok(first.map(|first| (first, policy)))
    }

    /// The properties to change, as the API takes them.
    fn patch(&self) -> Map<String, Value> {
        let mut patch = Map::new();
        let name = |name: &Name| Value::from(name.as_str());
        patch.extend(self.label.iter().map(|label| ("label".to_owned(), name(label))));
        patch.extend(self.policy.iter().map(|policy| ("policy".to_owned(), name(policy))));
        if !self.servers.is_empty() {
            let servers: Vec<_> = self.servers.iter().map(name).collect();
            patch.insert("servers".into(), servers.into());
        }
        let or_null = |text: &str, none| if text == none { Value::Null } else { text.into() };
        let principal = self.principal.iter();
        patch.extend(principal.map(|who| ("principal".to_owned(), or_null(who, "none"))));
        let expires = self.expires.iter();
        patch.extend(expires.map(|when| ("expires".to_owned(), or_null(when, "never"))));
        patch
    }
}
