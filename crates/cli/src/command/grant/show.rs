//! `sluice grant show`: prints one grant, or what it may call.

use clap::Args;
use serde_json::Value;

use super::{Grant, OneGrant, access};
use crate::{
    api::{Gateway, Question},
    output::{Done, print, print_json, visible},
};

#[derive(Debug, Args)]
pub(crate) struct ShowGrant {
    #[command(flatten)]
    one: OneGrant,
    /// Show what happens to its calls of each tool, and by which rule
    #[arg(long)]
    access: bool,
}

impl ShowGrant {
    pub(super) fn run(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        if self.access {
            return access::run(gateway, &self.one);
        }
        let grant = gateway.ask(Question::get(&["grants", &self.one.id]))?;
        if self.one.json {
            print_json(&grant)?;
            return Ok(Done::Well);
        }
        print_grant(&grant)
    }
}

/// Prints a grant as the API shows it, one property a line.
pub(super) fn print_grant(grant: &Value) -> anyhow::Result<Done> {
    print(&draw(&serde_json::from_value(grant.clone())?))?;
    Ok(Done::Well)
}

fn draw(grant: &Grant) -> String {
    let or_none = |text: &Option<String>, none: &str| text.as_deref().unwrap_or(none).to_owned();
    let lines = [
        ("id", grant.id.clone()),
        ("label", grant.label.clone()),
        ("servers", grant.servers.join(", ")),
        ("policy", grant.policy.clone()),
        ("principal", or_none(&grant.principal, "-")),
        ("state", grant.state.clone()),
        ("created", format!("{} by {}", grant.created_at, or_none(&grant.created_by, "the file"))),
        ("expires", or_none(&grant.expires_at, "never")),
        ("last used", or_none(&grant.last_used, "never")),
    ];
    let line = |(name, text): &(&str, String)| format!("{name:<10} {}\n", visible(text));
    lines.iter().map(line).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::{Grant, draw};

    #[test]
    fn a_grant_is_shown_with_its_use_and_its_creator() {
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
            last_used: Some("2027-02-01T12:00:00.000Z".into()),
        };
        assert_eq!(
            draw(&grant),
            "id         01ARZ3\n\
             label      laptop\n\
             servers    a, b\n\
             policy     dev\n\
             principal  -\n\
             state      valid\n\
             created    2027-01-31T12:00:00.000Z by admin\n\
             expires    never\n\
             last used  2027-02-01T12:00:00.000Z\n"
        );
    }
}
