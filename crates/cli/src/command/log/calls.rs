//! Joins the records of calls: a decision and its outcome become one row.
//!
//! A row is the decision's record; what came of the call is its member `result`. Records of other
//! kinds are rows of their own.

use std::{collections::HashMap, mem};

use serde_json::{Map, Value};
use sluice_store::{Kind, Outcome};

/// The members of an outcome's record that its row keeps.
const KEPT: [&str; 5] = ["at", "outcome", "message", "upstream", "micros"];

/// Requests of a server to its client. They have the request of the call on whose stream they came,
/// can be many, and have no outcome, so each is a row of its own.
const OF_SERVER: [&str; 3] = ["sampling/createMessage", "elicitation/create", "roots/list"];

/// What a decision and its outcome have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key([String; 4]);

/// Rows, in the order in which their first record was added.
#[derive(Debug, Default)]
pub(super) struct Calls {
    rows: Vec<Row>,
    places: HashMap<Key, usize>,
}

#[derive(Debug)]
enum Row {
    /// Not of a call.
    Other(Value),
    Call {
        decision: Option<Value>,
        outcome: Option<Value>,
    },
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a record to the row it belongs to; a second record of the same part is left out.
    pub(super) fn add(&mut self, record: Value) {
        let Some((key, kind)) = key_of(&record) else {
            return self.rows.push(Row::Other(record));
        };
        let place = *self.places.entry(key).or_insert(self.rows.len());
        if place == self.rows.len() {
            self.rows.push(Row::Call { decision: None, outcome: None });
        }
        let Some(Row::Call { decision, outcome }) = self.rows.get_mut(place) else { return };
        let part = if kind == Kind::Decision { decision } else { outcome };
        part.get_or_insert(record);
    }

    /// Whether there is a row of the call that a record is about.
    pub(super) fn has(&self, record: &Value) -> bool {
        key_of(record).is_some_and(|(key, _)| self.places.contains_key(&key))
    }

    /// Adds a record only if its row is there already.
    pub(super) fn complete(&mut self, record: Value) {
        if self.has(&record) {
            self.add(record);
        }
    }

    /// The requests of calls of which records of this kind are still missing.
    pub(super) fn incomplete(&self, kind: Kind) -> Vec<String> {
        let request = |record: &Value| Some(record.get("request")?.as_str()?.to_owned());
        let missing = self.rows.iter().filter_map(|row| match row {
            Row::Call { decision: Some(decision), outcome: None }
                if kind == Kind::Outcome && is_sent(decision) =>
            {
                request(decision)
            }
            Row::Call { decision: None, outcome: Some(outcome) } if kind == Kind::Decision => {
                request(outcome)
            }
            _ => None,
        });
        missing.collect()
    }

    /// Takes out the decisions whose outcome is still missing.
    pub(super) fn take_unanswered(&mut self) -> Vec<Value> {
        let mut taken = Vec::new();
        for row in mem::take(self).rows {
            match row {
                Row::Call { decision: Some(decision), outcome: None } if is_sent(&decision) => {
                    taken.push(decision);
                }
                Row::Call { decision, outcome } => {
                    decision.into_iter().chain(outcome).for_each(|record| self.add(record));
                }
                Row::Other(record) => self.add(record),
            }
        }
        taken
    }

    /// The rows, the oldest first.
    pub(super) fn into_rows(self) -> Vec<Value> {
        let mut rows: Vec<_> = self.rows.into_iter().filter_map(join).collect();
        rows.sort_by_cached_key(|row| text(row, "at").to_owned());
        rows
    }
}

/// Whether the decision let the call through, so that it has an outcome.
pub(super) fn is_sent(decision: &Value) -> bool {
    let outcome = Outcome::from_name(text(decision, "outcome"));
    matches!(outcome, Some(Outcome::Allow | Outcome::ShadowDeny))
        && !OF_SERVER.contains(&text(decision, "method"))
}

fn key_of(record: &Value) -> Option<(Key, Kind)> {
    let kind = Kind::from_name(text(record, "kind"));
    let kind = kind.filter(|kind| matches!(kind, Kind::Decision | Kind::Outcome))?;
    if OF_SERVER.contains(&text(record, "method")) {
        return None;
    }
    // One request can have decisions on several messages: those of the server that are denied for
    // their method.
    let parts = ["request", "server", "method", "target"].map(|name| text(record, name).to_owned());
    parts.first().filter(|request| !request.is_empty())?;
    Some((Key(parts), kind))
}

fn join(row: Row) -> Option<Value> {
    let (decision, outcome) = match row {
        Row::Other(record) => return Some(record),
        Row::Call { decision, outcome } => (decision, outcome),
    };
    let Some(mut joined) = decision else { return outcome };
    if let (Some(members), Some(Value::Object(outcome))) = (joined.as_object_mut(), outcome) {
        let kept = outcome.into_iter().filter(|(name, _)| KEPT.contains(&name.as_str()));
        members.insert("result".to_owned(), Value::Object(kept.collect::<Map<_, _>>()));
    }
    Some(joined)
}

fn text<'r>(record: &'r Value, name: &str) -> &'r str {
    record.get(name).and_then(Value::as_str).unwrap_or_default()
}
