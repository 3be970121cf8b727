//! Joins the records of calls: a decision and its outcome become one row.
//!
//! A row is the decision's record; what came of the call is its member `result`. Records of other
//! kinds are rows of their own.

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use serde_json::{Map, Value};
use sluice_store::{Kind, Outcome};

/// The members of an outcome's record that its row keeps.
const KEPT: [&str; 5] = ["at", "outcome", "message", "upstream", "micros"];

/// Requests of a server to its client. They have the request of the call on whose stream they came,
/// can be many, and have no outcome, so each is a row of its own.
const OF_SERVER: [&str; 3] = ["sampling/createMessage", "elicitation/create", "roots/list"];

/// What a decision and its outcome have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key([String; 4]);

/// Calls whose outcome is remembered to be shown already.
const MOST_SHOWN: usize = 4_096;

/// Calls whose outcome was shown before it came with the new records of a log that is followed:
/// it can be written after the new records were read, and before the outcomes were that were
/// missing of them.
#[derive(Debug, Default)]
pub(super) struct ShownOutcomes(VecDeque<Key>);

impl ShownOutcomes {
    /// Notes the calls whose outcome is there now, of those that lacked it.
    pub(super) fn note(&mut self, lacking: Vec<Key>, calls: &Calls) {
        let is_complete = |key: &Key| {
            let row = calls.places.get(key).and_then(|place| calls.rows.get(*place));
            matches!(row, Some(Row::Call { outcome: Some(_), .. }))
        };
        self.0.extend(lacking.into_iter().filter(is_complete));
        let excess = self.0.len().saturating_sub(MOST_SHOWN);
        self.0.drain(..excess);
    }

    /// Whether a record is an outcome that was shown; it is forgotten with that.
    pub(super) fn take(&mut self, record: &Value) -> bool {
        let Some((key, Kind::Outcome)) = key_of(record) else { return false };
        let place = self.0.iter().position(|shown| *shown == key);
        place.is_some_and(|place| self.0.remove(place).is_some())
    }
}

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

    /// The calls that have no outcome.
    pub(super) fn list_lacking(&self) -> Vec<Key> {
        let lacks =
            |place: &usize| matches!(self.rows.get(*place), Some(Row::Call { outcome: None, .. }));
        self.places.iter().filter(|(_, place)| lacks(place)).map(|(key, _)| key.clone()).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Calls, ShownOutcomes};

    fn record(kind: &str, request: &str) -> Value {
        json!({ "kind": kind, "request": request, "outcome": "allow", "method": "tools/call" })
    }

    /// An outcome is fetched for a decision that waits, and then comes with the new records, too.
    #[test]
    fn an_outcome_that_was_shown_is_recognised_once() {
        let (mut calls, mut shown) = (Calls::default(), ShownOutcomes::default());
        calls.add(record("decision", "one"));
        calls.add(record("decision", "two"));
        let lacking = calls.list_lacking();
        assert_eq!(lacking.len(), 2);
        calls.complete(record("outcome", "one"));
        shown.note(lacking, &calls);
        assert!(!shown.take(&record("decision", "one")));
        assert!(!shown.take(&record("outcome", "two")), "it was not there yet");
        assert!(shown.take(&record("outcome", "one")));
        assert!(!shown.take(&record("outcome", "one")));
    }
}
