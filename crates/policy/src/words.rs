//! The engine's own words, for denials where the policy gives none.

use crate::{
    condition::{Condition, Predicate},
    path::{ArgPath, Unjudgeable},
};

/// A condition as a person reads it: `` `args.amount` lte 100 ``.
pub(crate) fn condition(condition: &Condition) -> String {
    let path = condition.path.text();
    match condition.operator {
        "exists" if &*condition.value == "false" => format!("`{path}` is absent"),
        "exists" => format!("`{path}` is present"),
        operator => format!("`{path}` {operator} {}", condition.value),
    }
}

pub(crate) fn required(failing: &Condition) -> String {
    format!("this call must have {}", condition(failing))
}

pub(crate) fn forbidden(predicate: &Predicate) -> String {
    let parts: Vec<_> = predicate.conditions.iter().map(condition).collect();
    if parts.is_empty() {
        "this call is not allowed".into()
    } else {
        format!("calls with {} are not allowed", parts.join(" and "))
    }
}

pub(crate) fn unjudgeable(condition: &Condition, problem: Unjudgeable) -> String {
    let path = &condition.path;
    match problem {
        Unjudgeable::LookAlike => look_alike(path),
        Unjudgeable::Type => {
            format!("`{}` is not of a type that `{}` can judge", path.text(), condition.operator)
        }
    }
}

pub(crate) fn look_alike(path: &ArgPath) -> String {
    format!(
        "an argument has a name that looks like one in `{}`: send only the exact name",
        path.text()
    )
}

pub(crate) fn no_amount(path: &ArgPath, why: &str) -> String {
    format!("`{}` counts towards a limit and {why}", path.text())
}

pub(crate) fn invalid_arguments(refusal: &str) -> String {
    format!("the arguments do not fit the tool's schema: {refusal}")
}
