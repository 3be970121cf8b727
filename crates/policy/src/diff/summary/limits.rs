//! Changes of limits: which of two limits on one counter is tighter.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Value as Json, json};

use crate::{
    diff::{Change, Direction},
    limit::Limit,
    path::ArgPath,
    schema,
    time::Window,
};

/// Limits by their counter.
pub(super) type Limits<'p> = BTreeMap<String, &'p Limit>;

/// The counter of a limit in words, without its window: two windows of one counter are compared.
pub(super) fn counter(limit: &Limit) -> String {
    let adding = match &limit.increment_from {
        Some(path) => format!(", adding `{}`", path.text()),
        None => String::new(),
    };
    format!("counter `{}` ({}{adding})", limit.counter, limit.scope)
}

pub(super) fn changes(before: &Limits<'_>, after: &Limits<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (counter, new) in after {
        let old = before.get(counter).copied();
        let Some(direction) = compare(old, new) else { continue };
        let effect = match direction {
            Direction::Tighter => "limited",
            Direction::Looser => "loosened",
            Direction::Neither => "changed",
        };
        let was = old.map(|old| format!(", was {}", rate(old))).unwrap_or_default();
        changes.push(Change {
            effect,
            direction,
            rule: new.rule.to_string(),
            detail: format!("at most {} on {counter}{was}", rate(new)),
            before: old.map_or(Json::Null, json),
            after: json(new),
        });
    }
    let removed = before.iter().filter(|(counter, _)| !after.contains_key(*counter));
    changes.extend(removed.map(|(counter, old)| Change {
        effect: "loosened",
        direction: Direction::Looser,
        rule: old.rule.to_string(),
        detail: format!("no longer: at most {} on {counter}", rate(old)),
        before: json(old),
        after: Json::Null,
    }));
    changes
}

/// The direction of the change; `None` if both limits are the same.
fn compare(old: Option<&Limit>, new: &Limit) -> Option<Direction> {
    let Some(old) = old else { return Some(Direction::Tighter) };
    let window = compare_windows(old.window, new.window);
    match (new.max.cmp(&old.max), window) {
        (Ordering::Equal, Some(Ordering::Equal)) => None,
        (Ordering::Less | Ordering::Equal, Some(Ordering::Greater | Ordering::Equal)) => {
            Some(Direction::Tighter)
        }
        (Ordering::Greater | Ordering::Equal, Some(Ordering::Less | Ordering::Equal)) => {
            Some(Direction::Looser)
        }
        _ => Some(Direction::Neither),
    }
}

/// Whether the new window is shorter or longer, if the longer one consists of whole windows of the
/// shorter. Otherwise a few calls may fit the one and not the other.
fn compare_windows(old: Window, new: Window) -> Option<Ordering> {
    if old == new {
        return Some(Ordering::Equal);
    }
    // A month consists of whole days.
    let day = Window::Day.seconds().unwrap_or(1);
    match (old.seconds(), new.seconds()) {
        (Some(old), Some(new)) if old.is_multiple_of(new) => Some(Ordering::Less),
        (Some(old), Some(new)) if new.is_multiple_of(old) => Some(Ordering::Greater),
        (None, Some(new)) if day.is_multiple_of(new) => Some(Ordering::Less),
        (Some(old), None) if day.is_multiple_of(old) => Some(Ordering::Greater),
        _ => None,
    }
}

/// The maximum and the window: `30 per hour`.
fn rate(limit: &Limit) -> String {
    let window = match limit.window.seconds() {
        // `minute` and 60 are the same window.
        Some(60) => "minute".into(),
        Some(3_600) => "hour".into(),
        Some(86_400) => "day".into(),
        _ => limit.window.to_string(),
    };
    format!("{} per {window}", limit.max_text)
}

fn json(limit: &Limit) -> Json {
    let window = match limit.window {
        Window::Seconds(seconds) => json!(seconds),
        named => json!(named.to_string()),
    };
    json!({
        "counter": limit.counter,
        "scope": limit.scope.name(),
        "window": window,
        "max": schema::number(&limit.max_text),
        "increment_from": limit.increment_from.as_ref().map(ArgPath::text),
    })
}
