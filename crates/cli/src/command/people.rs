//! `sluice people`: the accounts of a running gateway.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::PossibleValuesParser};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sluice_store::{Name, Role};

use crate::{
    api::{Gateway, Question, with_gateway},
    output::{BAD, Cell, Done, GOOD, HELD, STRONG, print, print_json, remark, table, visible},
};

#[derive(Debug, Subcommand)]
pub(crate) enum PeopleCommand {
    /// List the people who may sign in, with their roles
    List(ListPeople),
    /// Invite a person, and print the link by which they set a password
    Add(AddPerson),
    /// Show one person
    Show(OnePerson),
    /// Change the name, role or servers of a person, or disable them
    Edit(EditPerson),
    /// Print a new link for a person who has lost the link or the password
    Invite(OnePerson),
    /// Remove a person, with their sessions and API tokens
    Remove(RemovePerson),
}

#[derive(Debug, Args)]
pub(crate) struct ListPeople {
    /// Print {"people"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AddPerson {
    /// The name to sign in with, such as an e-mail address
    login: String,
    /// What the person may do
    #[arg(long, value_parser = roles())]
    role: String,
    /// The name that is shown [default: the login]
    #[arg(long)]
    name: Option<String>,
    /// Limit the role to this server; may be given several times
    #[arg(long = "server", value_name = "SERVER", value_parser = Name::new)]
    servers: Vec<Name>,
    /// Print the person and the link as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OnePerson {
    /// The person's login or id
    login: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RemovePerson {
    /// The person's login or id
    login: String,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct EditPerson {
    /// The person's login or id
    login: String,
    /// What the person may do
    #[arg(long, value_parser = roles())]
    role: Option<String>,
    /// The name that is shown
    #[arg(long)]
    name: Option<String>,
    /// Limit the role to this server; may be given several times
    #[arg(long = "server", value_name = "SERVER", value_parser = Name::new)]
    servers: Vec<Name>,
    /// Let the role cover all servers
    #[arg(long, conflicts_with = "servers")]
    all_servers: bool,
    /// Keep the person from signing in, and end their sessions
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Let a disabled person sign in again
    #[arg(long)]
    enable: bool,
    /// Print the person as JSON
    #[arg(long)]
    json: bool,
}

/// The names of the roles.
pub(super) fn roles() -> PossibleValuesParser {
    PossibleValuesParser::new(Role::ALL.map(Role::name))
}

/// A person, as the API shows them.
#[derive(Debug, Deserialize)]
struct Person {
    login: String,
    name: String,
    role: String,
    servers: Option<Vec<String>>,
    reason: String,
    state: String,
    created_at: String,
    created_by: String,
    last_sign_in: Option<String>,
}

/// An invitation, as the API shows it.
#[derive(Debug, Deserialize)]
struct Invitation {
    person: Person,
    path: String,
    expires_at: String,
}

pub(crate) fn run(command: &PeopleCommand, data: Option<PathBuf>) -> anyhow::Result<Done> {
    with_gateway(data, |gateway| match command {
        PeopleCommand::List(list) => list.run(gateway),
        PeopleCommand::Add(add) => add.run(gateway),
        PeopleCommand::Show(one) => one.show(gateway),
        PeopleCommand::Edit(edit) => edit.run(gateway),
        PeopleCommand::Invite(one) => one.invite(gateway),
        PeopleCommand::Remove(remove) => remove.run(gateway),
    })
}

impl ListPeople {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let mut answer = gateway.ask_all(&["people"], "people")?;
        let people = answer.get_mut("people").map(Value::take).unwrap_or_default();
        if self.json {
            print_json(&json!({ "people": people }))?;
            return Ok(Done::Well);
        }
        print(&draw(&serde_json::from_value::<Vec<Person>>(people)?))?;
        Ok(Done::Well)
    }
}

fn draw(people: &[Person]) -> String {
    if people.is_empty() {
        return "nobody has an account: the admin token of the data directory does everything\n"
            .into();
    }
    let rows: Vec<_> = people
        .iter()
        .map(|person| {
            let state = match &*person.state {
                "active" => Cell::with_style("active", GOOD),
                "invited" => Cell::with_style("invited", HELD),
                other => Cell::with_style(other, BAD),
            };
            [
                Cell::new(&person.login),
                Cell::new(&person.role),
                Cell::new(&person.covered_servers()),
                state,
                Cell::maybe(person.last_sign_in.as_deref()),
            ]
        })
        .collect();
    table(["login", "role", "servers", "state", "last sign-in"], &rows)
}

impl AddPerson {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let servers = (!self.servers.is_empty()).then(|| name_servers(&self.servers));
        let new = json!({
            "login": self.login,
            "role": self.role,
            "name": self.name,
            "servers": servers,
        });
        let invited = gateway.ask(Question::post(&["people"]).json(&new))?;
        show_invitation(gateway, &invited, self.json)
    }
}

fn name_servers(servers: &[Name]) -> Value {
    servers.iter().map(|server| Value::from(server.as_str())).collect()
}

/// Prints the link alone on standard output, and everything else on standard error.
fn show_invitation(gateway: &Gateway, answer: &Value, json: bool) -> anyhow::Result<Done> {
    let invitation: Invitation = serde_json::from_value(answer.clone())?;
    let url = gateway.page_url(&invitation.path);
    if json {
        let person = answer.get("person");
        print_json(&json!({ "person": person, "url": url, "expires_at": invitation.expires_at }))?;
        return Ok(Done::Well);
    }
    let Invitation { person, expires_at, .. } = invitation;
    let (login, role, until) =
        (visible(&person.login), visible(&person.role), visible(&expires_at));
    remark(&format!(
        "{GOOD}ok{GOOD:#}: `{login}` is invited as {role}\n\n{STRONG}Link for them (works once, until {until}):{STRONG:#}\n"
    ))?;
    print(&format!("{}\n", visible(&url)))?;
    Ok(Done::Well)
}

impl OnePerson {
    fn show(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let person = gateway.ask(Question::get(&["people", &self.login]))?;
        print_person(&person, self.json)
    }

    fn invite(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let invited = gateway.ask(Question::post(&["people", &self.login, "invitation"]))?;
        show_invitation(gateway, &invited, self.json)
    }
}

impl EditPerson {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let mut changes = Map::new();
        changes.extend(self.role.as_ref().map(|role| ("role".into(), json!(role))));
        changes.extend(self.name.as_ref().map(|name| ("name".into(), json!(name))));
        if !self.servers.is_empty() {
            changes.insert("servers".into(), name_servers(&self.servers));
        } else if self.all_servers {
            changes.insert("servers".into(), Value::Null);
        }
        if self.disable || self.enable {
            changes.insert("disabled".into(), self.disable.into());
        }
        if changes.is_empty() {
            anyhow::bail!(
                "nothing to change\nhint: give at least one of --role, --name, --server, --all-servers, --disable and --enable"
            );
        }
        let path = ["people", self.login.as_str()];
        print_person(&gateway.ask(Question::patch(&path).json(&changes.into()))?, self.json)
    }
}

impl RemovePerson {
    fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        gateway.ask(Question::delete(&["people", &self.login]))?;
        let login = visible(&self.login);
        remark(&format!("{GOOD}ok{GOOD:#}: `{login}` is removed, with sessions and API tokens\n"))?;
        Ok(Done::Well)
    }
}

impl Person {
    fn covered_servers(&self) -> String {
        self.servers.as_ref().map_or_else(|| "all".into(), |servers| servers.join(", "))
    }
}

/// Prints a person as the API shows them, one property a line.
fn print_person(answer: &Value, json: bool) -> anyhow::Result<Done> {
    if json {
        print_json(answer)?;
        return Ok(Done::Well);
    }
    let person: Person = serde_json::from_value(answer.clone())?;
    let last_sign_in = person.last_sign_in.clone().unwrap_or_else(|| "never".into());
    let lines = [
        ("login", person.login.clone()),
        ("name", person.name.clone()),
        ("role", person.role.clone()),
        ("servers", person.covered_servers()),
        ("why", person.reason.clone()),
        ("state", person.state.clone()),
        ("created", format!("{} by {}", person.created_at, person.created_by)),
        ("last sign-in", last_sign_in),
    ];
    let line = |(name, text): &(&str, String)| format!("{name:<13} {}\n", visible(text));
    print(&lines.iter().map(line).collect::<Vec<_>>().concat())?;
    Ok(Done::Well)
}
