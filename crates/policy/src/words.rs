//! Default messages, for denials without a message in the policy.

use crate::{
    condition::{Condition, Predicate},
    path::{ArgPath, Unjudgeable},
};

/// A condition as a person reads it: `` `args.amount` is at most 100 ``.
pub(crate) fn condition(condition: &Condition) -> String {
    let (path, value) = (condition.path.text(), &condition.value);
    let phrase = match condition.operator {
        "exists" if &**value == "false" => return format!("`{path}` is not given"),
        "exists" => return format!("`{path}` is given"),
        "eq" => "is",
        "neq" => "is not",
        "lt" => "is less than",
        "lte" => "is at most",
        "gt" => "is more than",
        "gte" => "is at least",
        "in" => "is one of",
        "not_in" => "is none of",
        "regex" => "matches",
        "contains" => "contains",
        "starts_with" => "starts with",
        "path_within" => "is a path in",
        "url_host_in" => "is a URL on",
        other => other,
    };
    format!("`{path}` {phrase} {value}")
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
    let path = &condition.path;
    match problem {
        Unjudgeable::LookAlike => explain_look_alike(path),
        Unjudgeable::Type => {
            let wanted = match condition.operator {
                "lt" | "lte" | "gt" | "gte" => "a number",
                "regex" | "starts_with" => "a string",
                "contains" => "a string or a list",
                "path_within" => "a plain absolute path",
                "url_host_in" => "an absolute URL without a user name",
                "exists" => {
                    return format!(
                        "`{}` leads through something that is no object or list",
                        path.text()
                    );
                }
                _ => {
                    return format!(
                        "`{}` must be of the same type as {}",
                        path.text(),
                        condition.value
                    );
                }
            };
            format!("`{}` must be {wanted}", path.text())
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

pub(crate) fn explain_invalid_arguments(refusal: &str) -> String {
    format!("the arguments were refused: {refusal}")
}
