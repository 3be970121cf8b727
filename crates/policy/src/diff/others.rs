//! Changes that are not about one tool: the mode, resources, prompts, requests of the server and
//! unknown methods.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::{Change, Direction};
use crate::{
    access::Access,
    pattern::Glob,
    policy::{Mode, Policy, ServerRequest},
};

pub(super) fn changes(before: &Policy, after: &Policy) -> Vec<Change> {
    let mut changes: Vec<_> = compare_bases(before, after).into_iter().collect();
    // Bases are compared by name; one that only one side has permits everything on the other.
    let has =
        |policy: &Policy, base: &Policy| policy.bases.iter().any(|one| one.prefix == base.prefix);
    for old in before.bases.iter().filter(|old| !has(after, old)) {
        changes.extend(layer_changes(Some(old), None));
    }
    for new in &after.bases {
        let old = before.bases.iter().find(|old| old.prefix == new.prefix);
        changes.extend(layer_changes(old, Some(new)));
    }
    changes.extend(layer_changes(Some(before), Some(after)));
    changes
}

/// The difference between the bases, by their names.
fn compare_bases(before: &Policy, after: &Policy) -> Option<Change> {
    let (old, new): (Vec<_>, Vec<_>) =
        (before.base_names().collect(), after.base_names().collect());
    if old == new {
        return None;
    }
    let direction = match (old.len(), new.len()) {
        (0, _) => Direction::Tighter,
        (_, 0) => Direction::Looser,
        _ => Direction::Neither,
    };
    let words = |names: &[&str]| match names {
        [] => "nothing".to_owned(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };
    let detail = format!("extended {} before, {} after", words(&old), words(&new));
    let (before, after) = (json!(old), json!(new));
    Some(Change { effect: "changed", direction, rule: "/extends".into(), detail, before, after })
}

/// The changes of one policy of the chain.
fn layer_changes(before: Option<&Policy>, after: Option<&Policy>) -> Vec<Change> {
    let prefix = after.or(before).map_or("", |layer| &*layer.prefix);
    let mut changes: Vec<_> = before
        .zip(after)
        .and_then(|(before, after)| mode(before.mode, after.mode))
        .into_iter()
        .collect();
    let rules = ["/resources", "/prompts", "/server_requests", "/methods"];
    let sets = rules.into_iter().zip(Allowed::of(before).into_iter().zip(Allowed::of(after)));
    changes.extend(sets.filter_map(|(rule, (old, new))| old.change_to(&new, rule)));
    for change in &mut changes {
        change.rule.insert_str(0, prefix);
    }
    changes
}

fn mode(before: Mode, after: Mode) -> Option<Change> {
    let (effect, direction, detail) = match (before, after) {
        (Mode::Enforce, Mode::Shadow) => {
            ("allowed", Direction::Looser, "denials no longer take effect, only `hide` does")
        }
        (Mode::Shadow, Mode::Enforce) => ("denied", Direction::Tighter, "denials take effect"),
        _ => return None,
    };
    let (before, after) = (json!(mode_name(before)), json!(mode_name(after)));
    Some(Change { effect, direction, rule: "/mode".into(), detail: detail.into(), before, after })
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    }
}

/// What is allowed of one kind.
#[derive(PartialEq, Eq)]
enum Allowed<'p> {
    All,
    /// What these names or patterns select.
    Only(BTreeSet<&'p str>),
}

impl<'p> Allowed<'p> {
    fn by(access: &'p Access) -> Allowed<'p> {
        match access {
            Access::Allow => Allowed::All,
            Access::Deny => Allowed::Only(BTreeSet::new()),
            Access::Only(patterns) => Allowed::Only(patterns.iter().map(Glob::text).collect()),
        }
    }

    /// What a policy allows by itself: resources, prompts, requests of the server and methods.
    /// Where there is none, everything.
    fn of(layer: Option<&'p Policy>) -> [Allowed<'p>; 4] {
        let Some(layer) = layer else {
            return [Allowed::All, Allowed::All, Allowed::All, Allowed::All];
        };
        [
            Allowed::by(&layer.resources),
            Allowed::by(&layer.prompts),
            Allowed::requests(layer),
            Allowed::methods(layer),
        ]
    }

    fn requests(policy: &Policy) -> Allowed<'static> {
        let permitted =
            ServerRequest::ALL.into_iter().filter(|one| policy.server_requests.contains(one));
        let names: BTreeSet<_> = permitted.map(ServerRequest::name).collect();
        if names.len() == ServerRequest::ALL.len() { Allowed::All } else { Allowed::Only(names) }
    }

    fn methods(policy: &'p Policy) -> Allowed<'p> {
        Allowed::Only(policy.methods.iter().map(Glob::text).collect())
    }

    fn change_to(&self, after: &Allowed<'_>, rule: &str) -> Option<Change> {
        let (effect, direction) = match (self, after) {
            (old, new) if old == new => return None,
            (_, Allowed::All) => ("allowed", Direction::Looser),
            (Allowed::All, _) => ("denied", Direction::Tighter),
            (Allowed::Only(old), Allowed::Only(new)) if old.is_subset(new) => {
                ("allowed", Direction::Looser)
            }
            (Allowed::Only(old), Allowed::Only(new)) if new.is_subset(old) => {
                ("denied", Direction::Tighter)
            }
            _ => ("changed", Direction::Neither),
        };
        let detail = format!("{} before, {} after", self.words(), after.words());
        let (before, after) = (self.json(), after.json());
        Some(Change { effect, direction, rule: rule.into(), detail, before, after })
    }

    fn words(&self) -> String {
        match self {
            Allowed::All => "all".into(),
            Allowed::Only(names) if names.is_empty() => "none".into(),
            Allowed::Only(names) => {
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("only {}", names.join(", "))
            }
        }
    }

    fn json(&self) -> Json {
        match self {
            Allowed::All => json!("all"),
            Allowed::Only(names) => json!(names),
        }
    }
}
