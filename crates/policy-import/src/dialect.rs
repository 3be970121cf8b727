//! The grammar of the older dialect, as tables like those of our own language.
//!
//! A tool's entry has one of two shapes: a list of `rules`, or a flat one with the keys of a single
//! rule. The meaning of values is left to the modules that convert them.

use sluice_policy::{
    LONGEST_WINDOW,
    file::grammar::{Choice, Record, TextForm, Type, may, must, word},
};

/// Keys of the flat shape of a tool's entry.
pub(super) const FLAT: [&str; 4] = ["action", "reason", "rate_limit", "validate"];

/// Names of windows.
pub(super) const WINDOWS: [&str; 3] = ["minute", "hour", "day"];

static TOOL_NAME: TextForm = TextForm { pattern: ".", example: "create_issue" };
static RATE: TextForm = TextForm { pattern: "^[0-9]+/(minute|hour|day)$", example: "5/hour" };
static TIMEOUT: TextForm = TextForm { pattern: "^([0-9]+(h|m|s))+$", example: "10m" };
static PATH: TextForm = TextForm { pattern: r"^(args|state)\.", example: "args.amount" };

static VERSIONS: [Choice; 1] = [word("1", "The only version.")];
static POSTURES: [Choice; 2] = [word("allow", "The default."), word("deny", "Only listed tools.")];
static RULE_ACTIONS: [Choice; 3] = [
    word("evaluate", "The conditions must hold."),
    word("deny", "Every call is denied."),
    word("require_approval", "Calls for which the conditions hold need a human's approval."),
];
static FLAT_ACTIONS: [Choice; 3] = [
    word("allow", "The tool is allowed."),
    word("deny", "Every call is denied."),
    word("require_approval", "Every call needs a human's approval."),
];
static WINDOW_CHOICES: [Choice; 3] =
    [word("minute", "In UTC."), word("hour", "In UTC."), word("day", "In UTC.")];
static OPERATORS: [Choice; 11] = [
    word("eq", "Equal."),
    word("neq", "Not equal."),
    word("in", "One of a list."),
    word("not_in", "None of a list."),
    word("lt", "Less than."),
    word("lte", "At most."),
    word("gt", "Greater than."),
    word("gte", "At least."),
    word("regex", "A pattern is found in it."),
    word("contains", "A string has this part, or a list this element."),
    word("exists", "Present and not null, or not."),
];

static CONDITION: Record = Record {
    name: "condition",
    doc: "One test on an argument or a counter.",
    fields: &[
        must("path", Type::Form(&PATH), "The tested value: `args.a.b` or `state.tool.counter`."),
        must("op", Type::Choice(&OPERATORS), "How to compare."),
        may("value", Type::OperatorValue, "What to compare with."),
    ],
};

static STATE: Record = Record {
    name: "state",
    doc: "A counter that the rule's calls raise.",
    fields: &[
        must("counter", Type::Text, "The counter's name."),
        must("window", Type::Choice(&WINDOW_CHOICES), "When it begins again at 0."),
        may("increment", Type::Whole { least: 0, most: i64::MAX as u64 }, "What a call adds."),
        may("increment_from", Type::Form(&PATH), "The argument that a call adds instead."),
    ],
};

static RULE: Record = Record {
    name: "rule",
    doc: "One rule; all rules of a tool must pass.",
    fields: &[
        may("name", Type::Text, "What the rule is called."),
        may("action", Type::Choice(&RULE_ACTIONS), "Default: `evaluate`."),
        may("rate_limit", Type::Form(&RATE), "So many calls in a window."),
        may("conditions", Type::List(&Type::Record(&CONDITION)), "All must hold."),
        may("on_deny", Type::Text, "The message to the caller."),
        may("state", Type::Record(&STATE), "A counter."),
        may("approval_timeout", Type::Form(&TIMEOUT), "How long an approval waits."),
    ],
};

static FLAT_RATE: Record = Record {
    name: "rate_limit",
    doc: "So many calls in so many seconds.",
    fields: &[
        must("max", Type::Whole { least: 0, most: u64::MAX }, "How many calls."),
        must("window", Type::Whole { least: 1, most: LONGEST_WINDOW as u64 }, "How many seconds."),
    ],
};

static VALIDATE: Record = Record {
    name: "validate",
    doc: "What to check about the arguments.",
    fields: &[may("required_args", Type::Boolean, "That none is missing.")],
};

static TOOL: Record = Record {
    name: "tool",
    doc: "What holds for one tool.",
    fields: &[
        may("rules", Type::List(&Type::Record(&RULE)), "Its rules."),
        may("action", Type::Choice(&FLAT_ACTIONS), "Flat shape: allow or deny."),
        may("reason", Type::Text, "Flat shape: the message to the caller."),
        may("rate_limit", Type::Record(&FLAT_RATE), "Flat shape: a limit."),
        may("validate", Type::Record(&VALIDATE), "Flat shape: checks on the arguments."),
    ],
};

pub(super) static POLICY: Record = Record {
    name: "policy",
    doc: "A policy in the older dialect.",
    fields: &[
        // The older parser also accepted it unquoted, as text.
        may(
            "version",
            Type::Either(&[Type::Choice(&VERSIONS), Type::Whole { least: 1, most: 1 }]),
            "The dialect's version.",
        ),
        may("description", Type::Text, "What the policy is for."),
        may("default", Type::Choice(&POSTURES), "What holds for tools not listed."),
        may("hide", Type::List(&Type::Text), "Tools that are not shown."),
        may("approvals", Type::Object, "How people are asked for approvals."),
        may("tools", Type::Map { keys: &TOOL_NAME, values: &Type::Record(&TOOL) }, "The tools."),
    ],
};
