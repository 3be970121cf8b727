//! Conditions and predicates: what they say in each of the lists they may stand in.

use serde_json::Value;

use super::entry::list;
use super::ops::holds;
use super::walk::{Problem, walk};

/// How the places a path leads to are combined into one truth value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    /// All must hold, as in `require`.
    All,
    /// One is enough, as in `deny_if` and `when`.
    Any,
}

/// The conditions of a predicate.
pub(crate) fn conditions(predicate: &Value) -> Vec<Value> {
    list(predicate.get("conditions"))
}

/// Judges one condition.
pub(crate) fn condition(cond: &Value, args: &Value, combine: Combine) -> Result<bool, Problem> {
    let path = cond["path"].as_str().unwrap_or_default();
    let op = cond["op"].as_str().unwrap_or_default();
    let truths = walk(args, path, &|argument| holds(op, cond.get("value"), argument))?;
    Ok(match combine {
        Combine::All => truths.iter().all(|truth| *truth),
        Combine::Any => truths.iter().any(|truth| *truth),
    })
}

/// The last part of a condition's rule id: `<path>-<op>`, as written.
pub(crate) fn id(cond: &Value) -> String {
    format!(
        "{}-{}",
        cond["path"].as_str().unwrap_or_default(),
        cond["op"].as_str().unwrap_or_default()
    )
}

/// Whether a predicate of `deny_if` or `when` holds. Every condition is judged, so the
/// first that cannot be judged is handed back, even if an earlier one is false. A
/// predicate without conditions holds.
pub(crate) fn fires(predicate: &Value, args: &Value) -> Result<bool, (Value, Problem)> {
    let mut all = true;
    for cond in conditions(predicate) {
        all &= condition(&cond, args, Combine::Any).map_err(|problem| (cond.clone(), problem))?;
    }
    Ok(all)
}
