//! Default messages, for denials without a message in the policy.

use crate::{
    condition::{Condition, Predicate},
    limit::Scope,
    path::{ArgPath, Unjudgeable},
};

/// An operator's phrases for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phrases {
    pub(crate) condition: Phrase,
    pub(crate) needs: Needs,
}

/// The wording of a condition.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Phrase {
    /// The phrase between the path and the value.
    Before(&'static str),
    /// Says whether the argument is given, depending on the value.
    Given,
}

/// What an argument must be for the condition to be judged.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Needs {
    Argument(&'static str),
    TypeOfValue,
    /// Objects or lists on the path to it.
    Containers,
}

/// A condition in words: `` `args.amount` is at most 100 ``.
pub(crate) fn condition(condition: &Condition) -> String {
    let (path, value) = (condition.path.text(), &condition.value);
    match condition.phrases.condition {
        Phrase::Before(phrase) => format!("`{path}` {phrase} {value}"),
        Phrase::Given if &**value == "false" => format!("`{path}` is not given"),
        Phrase::Given => format!("`{path}` is given"),
    }
}

pub(crate) fn explain_require(failing: &Condition) -> String {
    format!("this call is allowed only where {}", condition(failing))
}

pub(crate) fn explain_deny_if(predicate: &Predicate) -> String {
    let parts: Vec<_> = predicate.conditions.iter().map(condition).collect();
    if parts.is_empty() {
        "this call is not allowed".into()
    } else {
        format!("calls where {} are not allowed", parts.join(" and "))
    }
}

pub(crate) fn unjudgeable(condition: &Condition, problem: Unjudgeable) -> String {
    let (path, value) = (condition.path.text(), &condition.value);
    match (problem, condition.phrases.needs) {
        (Unjudgeable::LookAlike, _) => explain_look_alike(&condition.path),
        (Unjudgeable::Type, Needs::Argument(needed)) => format!("`{path}` must be {needed}"),
        (Unjudgeable::Type, Needs::TypeOfValue) => {
            format!("`{path}` must be of the same type as {value}")
        }
        (Unjudgeable::Type, Needs::Containers) => {
            format!("`{path}` leads through something that is neither an object nor a list")
        }
    }
}

pub(crate) fn explain_look_alike(path: &ArgPath) -> String {
    format!(
        "an argument has a name that looks like one in `{}`: send only the exact name",
        path.text()
    )
}

pub(crate) fn explain_missing_amount(path: &ArgPath, why: &str) -> String {
    format!("`{}` counts towards a limit and {why}", path.text())
}

/// The message when as many calls are in progress as may be.
pub(crate) fn explain_concurrency(max: u64, scope: Scope) -> String {
    let calls = if max == 1 { "1 call" } else { &format!("{max} calls") };
    let later = if max == 0 { "" } else { " Try again when one has ended." };
    format!("Too many calls at once: at most {calls} at a time for this {scope}.{later}")
}

pub(crate) fn explain_invalid_arguments(refusal: &str) -> String {
    format!("the arguments were refused: {refusal}")
}
