//! Changes of `concurrent`: how many calls of an entry may be in progress at a time.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Value as Json, json};

use crate::{
    diff::{Change, Direction},
    limit::Concurrency,
};

/// Bounds by the calls that they count together.
pub(super) type Leases<'p> = BTreeMap<String, &'p Concurrency>;

/// The calls that are counted together, in words.
pub(super) fn calls(concurrency: &Concurrency) -> String {
    let entry = concurrency.rule.trim_end_matches("/concurrent").replacen("/tools/", "", 1);
    format!("of `{}` ({})", entry.replacen("/all_tools", "all_tools", 1), concurrency.scope)
}

pub(super) fn changes(before: &Leases<'_>, after: &Leases<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (calls, new) in after {
        let old = before.get(calls).copied();
        let (effect, direction) = match old.map(|old| new.max.cmp(&old.max)) {
            Some(Ordering::Equal) => continue,
            None | Some(Ordering::Less) => ("limited", Direction::Tighter),
            Some(Ordering::Greater) => ("loosened", Direction::Looser),
        };
        let was = old.map(|old| format!(", was {}", old.max)).unwrap_or_default();
        changes.push(Change {
            effect,
            direction,
            rule: new.rule.to_string(),
            detail: format!("at most {} calls {calls} at a time{was}", new.max),
            before: old.map_or(Json::Null, json),
            after: json(new),
        });
    }
    let removed = before.iter().filter(|(calls, _)| !after.contains_key(*calls));
    changes.extend(removed.map(|(calls, old)| Change {
        effect: "loosened",
        direction: Direction::Looser,
        rule: old.rule.to_string(),
        detail: format!("no longer: at most {} calls {calls} at a time", old.max),
        before: json(old),
        after: Json::Null,
    }));
    changes
}

fn json(concurrency: &Concurrency) -> Json {
    json!({ "scope": concurrency.scope.name(), "max": concurrency.max })
}
