//! Tests of the oracle, paragraph by paragraph of the page; this head holds what they
//! share.
#![expect(clippy::needless_pass_by_value, reason = "tables of `json!` read best without `&`")]

mod amounts;
mod entries;
mod meanings;
mod numbers;
mod operators;
mod order;
mod others;

use crate::oracle::{Facts, Verdict};
use serde_json::{Value, json};

/// A tool whose definition is known.
pub(crate) fn known(category: &str) -> Facts {
    Facts::Known { category: category.to_owned(), input_schema: None }
}

/// A toy schema language: `{"must": key}` asks for a key, and `"broken"` cannot be
/// compiled.
pub(crate) fn schema(schema: &Value, args: &Value) -> Option<bool> {
    schema.get("must").and_then(Value::as_str).map(|key| args.get(key).is_some())
}

/// Judges a call with a known definition.
pub(crate) fn judge(policy: &Value, tool: &str, args: Value) -> Verdict {
    crate::oracle::judge(policy, tool, &args, &known("other"), &schema)
}

/// The verdict in one line: the outcome, and the rule where there is one.
pub(crate) fn line(verdict: &Verdict) -> String {
    match &verdict.rule {
        Some(rule) => format!("{} {rule}", verdict.outcome),
        None => verdict.outcome.to_owned(),
    }
}

/// Checks the line of a call of tool `t` under this rule.
#[track_caller]
pub(crate) fn check(rule: Value, args: Value, expected: &str) {
    let policy = json!({ "version": "1", "default": "deny", "tools": { "t": rule } });
    assert_eq!(line(&judge(&policy, "t", args)), expected);
}

/// Checks one condition in both lists: `holds` is `Ok(truth)`, or the suffix of the
/// problem.
#[track_caller]
pub(crate) fn cond(path: &str, op: &str, value: Value, args: Value, holds: Result<bool, &str>) {
    let one = json!([{ "conditions": [{ "path": path, "op": op, "value": value }] }]);
    let (require, deny_if) = match holds {
        Ok(true) => ("allow".to_owned(), format!("deny /tools/t/deny_if/{path}-{op}")),
        Ok(false) => (format!("deny /tools/t/require/{path}-{op}"), "allow".to_owned()),
        Err(suffix) => (
            format!("deny /tools/t/require/{path}-{op}({suffix})"),
            format!("deny /tools/t/deny_if/{path}-{op}({suffix})"),
        ),
    };
    check(json!({ "require": one.clone() }), args.clone(), &require);
    check(json!({ "deny_if": one }), args, &deny_if);
}
