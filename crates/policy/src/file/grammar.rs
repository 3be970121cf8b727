//! The grammar as tables: every key with its type and a line of documentation.
//!
//! The loader checks policies against these tables, and the JSON Schema for
//! editors is generated from them, so the two cannot drift apart.

mod operators;

pub(crate) use operators::{OPERATORS, Operator, Takes};

/// A key of a record.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub of: Type,
    pub required: bool,
    pub doc: &'static str,
}

/// An object with fixed keys.
#[derive(Debug)]
pub struct Record {
    /// Its name in the JSON Schema.
    pub name: &'static str,
    pub doc: &'static str,
    pub fields: &'static [Field],
}

/// One of a fixed set of words.
#[derive(Debug)]
pub struct Choice {
    pub name: &'static str,
    pub doc: &'static str,
}

/// The format of a string. Lowering reports errors in a value; the pattern is
/// for editors.
#[derive(Debug)]
pub struct TextForm {
    pub pattern: &'static str,
    pub example: &'static str,
}

/// The type of a value.
#[derive(Debug)]
pub enum Type {
    Text,
    Form(&'static TextForm),
    Boolean,
    /// Only `true`.
    True,
    /// A number from `least`.
    Number {
        least: u64,
    },
    /// A whole number in a range.
    Whole {
        least: u64,
        most: u64,
    },
    Choice(&'static [Choice]),
    List(&'static Type),
    Record(&'static Record),
    /// Any keys of one format, with values of one type.
    Map {
        keys: &'static TextForm,
        values: &'static Type,
    },
    /// Any object.
    Object,
    /// Depends on the operator next to it.
    OperatorValue,
    Operator,
    Either(&'static [Type]),
}

pub const fn must(name: &'static str, of: Type, doc: &'static str) -> Field {
    Field { name, of, required: true, doc }
}

pub const fn may(name: &'static str, of: Type, doc: &'static str) -> Field {
    Field { name, of, required: false, doc }
}

pub const fn word(name: &'static str, doc: &'static str) -> Choice {
    Choice { name, doc }
}

static PATTERN: TextForm = TextForm {
    pattern: "^([^@]|@(read|write|execute|destructive|financial|other)$|$)",
    example: "get_*",
};
static TOOL_NAME: TextForm = TextForm { pattern: "^[^@*][^*]*$", example: "eval" };
static PATH: TextForm = TextForm { pattern: r"^args(\.[^.]+)+$", example: "args.amount" };
static DURATION: TextForm = TextForm { pattern: "^[0-9]+[smhd]$", example: "15m" };
static RATE: TextForm =
    TextForm { pattern: "^[0-9]+/(minute|hour|day|month|[0-9]+)$", example: "10/minute" };
static TIME: TextForm =
    TextForm { pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]", example: "2026-01-31T12:00:00Z" };
static BASE: TextForm = TextForm { pattern: r"^([a-z0-9-]+|\./[^/\\:]+)$", example: "company" };
static NOT_EMPTY: TextForm = TextForm { pattern: ".", example: "eval_rate" };

/// The maximum of `concurrent`.
const MOST_CONCURRENT: u64 = 1_000_000;

/// The maximum of `times` in one of a policy's tests.
pub(crate) const MOST_TIMES: u64 = 10_000;

static POSTURES: [Choice; 2] = [
    word("allow", "Tools that no entry names are allowed."),
    word("deny", "Tools that no entry names are denied."),
];
static ACCESS_WORDS: [Choice; 2] =
    [word("allow", "All of them."), word("deny", "None of them; lists answer empty.")];
static MODES: [Choice; 2] = [
    word("enforce", "Denials take effect."),
    word("shadow", "Everything is judged and recorded; only hidden tools are refused."),
];
static ACTIONS: [Choice; 4] = [
    word("allow", "The tool is allowed, subject to the rest of the rule."),
    word("deny", "Every call is denied; `reason` is the message."),
    word("hide", "The tool is not listed and cannot be called."),
    word("approve", "Every call needs a human's approval."),
];
static OUTCOMES: [Choice; 5] = [
    word("allow", "The last call is allowed."),
    word("deny", "The last call is denied."),
    word("hide", "The tool is hidden."),
    word("hold", "The last call waits for a human's approval."),
    word("approve", "Another word for `hold`."),
];
static CATEGORIES: [Choice; 6] = [
    word("read", "Reads, without side effects."),
    word("other", "None of the others."),
    word("write", "Creates or changes something that can be undone."),
    word("execute", "Runs code."),
    word("destructive", "Deletes or overwrites permanently."),
    word("financial", "Moves money or commits to paying."),
];
static SCOPES: [Choice; 4] = [
    word("grant", "The calls of each grant."),
    word("session", "The calls of each session."),
    word("principal", "The calls of each person or agent, over all of their grants."),
    word("server", "The calls of all grants."),
];
static SERVER_REQUESTS: [Choice; 3] = [
    word("sampling", "The server may ask the client's model for text."),
    word("elicitation", "The server may ask the user for input."),
    word("roots", "The server may ask for the client's root folders."),
];
static WINDOWS: [Choice; 4] = [
    word("minute", "A calendar minute in UTC."),
    word("hour", "A calendar hour in UTC."),
    word("day", "A calendar day in UTC."),
    word("month", "A calendar month in UTC."),
];
static VERSIONS: [Choice; 1] = [word("1", "This version of the language.")];

const WINDOW: Type = Type::Either(&[
    Type::Choice(&WINDOWS),
    Type::Whole { least: 1, most: crate::time::LONGEST_WINDOW as u64 },
]);
const ACCESS: Type = Type::Either(&[Type::Choice(&ACCESS_WORDS), Type::Record(&ACCESS_LIST)]);
const PREDICATES: Type = Type::List(&Type::Record(&PREDICATE));

static ACCESS_LIST: Record = Record {
    name: "access",
    doc: "Only what one of the patterns matches.",
    fields: &[must(
        "allow",
        Type::List(&Type::Text),
        "Patterns of URIs or names; `*` stands for any text.",
    )],
};

static CONDITION: Record = Record {
    name: "condition",
    doc: "One test on one argument.",
    fields: &[
        must(
            "path",
            Type::Form(&PATH),
            "Which argument: `args.a.b`, `args.items.0`, `args.items.*.id`.",
        ),
        must("op", Type::Operator, "How to compare."),
        may("value", Type::OperatorValue, "What to compare with."),
    ],
};

static PREDICATE: Record = Record {
    name: "predicate",
    doc: "Conditions that must hold together; an empty list always holds.",
    fields: &[
        must(
            "conditions",
            Type::List(&Type::Record(&CONDITION)),
            "The conditions; all of them must hold.",
        ),
        may("on_deny", Type::Text, "The message to the caller when this denies."),
    ],
};

static LIMIT: Record = Record {
    name: "limit",
    doc: "How much a counter may take in one window.",
    fields: &[
        must(
            "counter",
            Type::Form(&NOT_EMPTY),
            "The counter's name; limits that name the same one share it.",
        ),
        must(
            "window",
            WINDOW,
            "How long the counter counts: `minute`, `hour`, `day`, `month`, or whole seconds.",
        ),
        must("max", Type::Number { least: 0 }, "The most it may reach."),
        may("scope", Type::Choice(&SCOPES), "Whose calls it counts. Default: `grant`."),
        may("increment_from", Type::Form(&PATH), "Add this argument instead of 1."),
        may("on_deny", Type::Text, "The message to the caller when the limit is reached."),
    ],
};

static RATE_LIMIT: Record = Record {
    name: "rate_limit",
    doc: "At most so many calls in one window, for each grant.",
    fields: &[
        must("max", Type::Number { least: 0 }, "How many calls."),
        must("window", WINDOW, "In how long: `minute`, `hour`, `day`, `month`, or whole seconds."),
    ],
};

static CONCURRENT: Record = Record {
    name: "concurrent",
    doc: "At most so many calls in progress at a time.",
    fields: &[
        must("max", Type::Whole { least: 0, most: MOST_CONCURRENT }, "How many calls."),
        may("scope", Type::Choice(&SCOPES), "Whose calls are counted together. Default: `grant`."),
        may("on_deny", Type::Text, "The message to the caller when as many are in progress."),
    ],
};

static APPROVAL: Record = Record {
    name: "approval",
    doc: "Calls that a human must approve first.",
    fields: &[
        may("when", PREDICATES, "Only when one of these holds. Absent: always."),
        may("expires", Type::Form(&DURATION), "How long the approval waits. Default: `15m`."),
        may(
            "approvers",
            Type::Whole { least: 1, most: 5 },
            "How many different people must approve. Default: 1.",
        ),
        may("message", Type::Text, "The message to the caller and the approver."),
    ],
};

pub(crate) static RULE: Record = Record {
    name: "rule",
    doc: "What holds for the tools an entry selects. An empty rule allows them.",
    fields: &[
        may("action", Type::Choice(&ACTIONS), "Short for the plain forms below."),
        may(
            "reason",
            Type::Text,
            "The message to the caller when this rule denies without a message of its own.",
        ),
        may("except", Type::List(&Type::Form(&TOOL_NAME)), "Tools taken out of this entry."),
        may("require", PREDICATES, "Every predicate must hold, or the call is denied."),
        may("deny_if", PREDICATES, "If any predicate holds, the call is denied."),
        may(
            "limits",
            Type::List(&Type::Record(&LIMIT)),
            "Counters that all must have room for the call.",
        ),
        may(
            "rate_limit",
            Type::Either(&[Type::Form(&RATE), Type::Record(&RATE_LIMIT)]),
            "Short for one limit named `<key>_rate`.",
        ),
        may(
            "concurrent",
            Type::Either(&[
                Type::Whole { least: 0, most: MOST_CONCURRENT },
                Type::Record(&CONCURRENT),
            ]),
            "How many calls may be in progress at a time.",
        ),
        may(
            "approval",
            Type::Either(&[Type::True, Type::Record(&APPROVAL)]),
            "Calls a human must approve first.",
        ),
        may(
            "validate_args",
            Type::Either(&[Type::Boolean, Type::Object]),
            "`true`: arguments must fit the tool's own schema; an object: this JSON Schema.",
        ),
    ],
};

static TEST_CALL: Record = Record {
    name: "test_call",
    doc: "The call a test makes.",
    fields: &[
        must("tool", Type::Text, "The tool's name."),
        may("args", Type::Object, "Its arguments."),
        may(
            "times",
            Type::Whole { least: 1, most: MOST_TIMES },
            "How often the call is made. Default: 1.",
        ),
        may("at", Type::Form(&TIME), "When, in RFC 3339."),
        may(
            "category",
            Type::Choice(&CATEGORIES),
            "What the tool can do, for `@read` and its kin.",
        ),
    ],
};

static TEST: Record = Record {
    name: "test",
    doc: "A call, and what must come of it. Counters start empty.",
    fields: &[
        must("name", Type::Text, "What the test shows."),
        must("call", Type::Record(&TEST_CALL), "The call."),
        must("expect", Type::Choice(&OUTCOMES), "What the last call must come to."),
        may("rule", Type::Text, "The id of the rule that must decide."),
    ],
};

pub(crate) static POLICY: Record = Record {
    name: "policy",
    doc: "What one grant may do on one server.",
    fields: &[
        must("version", Type::Choice(&VERSIONS), "The version of the language: `\"1\"`."),
        must(
            "default",
            Type::Choice(&POSTURES),
            "What happens to tools that no entry of `tools` names.",
        ),
        may("$schema", Type::Text, "Where an editor finds this schema."),
        may("description", Type::Text, "What the policy is for."),
        may(
            "extends",
            Type::Form(&BASE),
            "A policy of the same server, or `./` and a file beside this one, that judges each call \
             as well.",
        ),
        may("mode", Type::Choice(&MODES), "Whether denials take effect. Default: `enforce`."),
        may(
            "validate_args",
            Type::Boolean,
            "Whether arguments must fit each tool's own schema. Default: `false`.",
        ),
        may(
            "hide",
            Type::List(&Type::Form(&PATTERN)),
            "Tools that are neither listed nor callable.",
        ),
        may("all_tools", Type::Record(&RULE), "A rule for every call."),
        may(
            "tools",
            Type::Map { keys: &PATTERN, values: &Type::Record(&RULE) },
            "Rules by tool: a name, a name with `*`, or a category such as `@read`.",
        ),
        may("resources", ACCESS, "Which resources may be read. Default: as `default`."),
        may("prompts", ACCESS, "Which prompts may be used. Default: as `default`."),
        may(
            "server_requests",
            Type::List(&Type::Choice(&SERVER_REQUESTS)),
            "What the server may ask of the client. Default: all under `allow`, none under `deny`.",
        ),
        may(
            "methods",
            Type::List(&Type::Text),
            "Methods the gateway does not know that may pass; `*` stands for any text.",
        ),
        may(
            "tests",
            Type::List(&Type::Record(&TEST)),
            "Calls that show the policy does what it should.",
        ),
    ],
};
