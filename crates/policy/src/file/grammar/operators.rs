//! The operators: what value each takes, and what it means.

/// One operator.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    pub(crate) value: ValueKind,
    pub(crate) doc: &'static str,
    /// Spellings people try.
    pub(crate) also: &'static [&'static str],
}

/// What an operator's `value` must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// A string, number or boolean.
    Scalar,
    /// A list of those.
    Scalars,
    Number,
    /// May be left out, and is then `true`.
    Boolean,
    Text,
    /// A list of strings.
    Texts,
}

const fn operator(
    name: &'static str,
    value: ValueKind,
    doc: &'static str,
    also: &'static [&'static str],
) -> Operator {
    Operator { name, value, doc, also }
}

pub(crate) static OPERATORS: [Operator; 14] = [
    operator("eq", ValueKind::Scalar, "Equal.", &["=", "==", "===", "is", "equal", "equals"]),
    operator("neq", ValueKind::Scalar, "Not equal.", &["!=", "<>", "ne", "not_eq", "not_equals"]),
    operator("lt", ValueKind::Number, "Less than.", &["<", "less", "less_than"]),
    operator("lte", ValueKind::Number, "At most.", &["<=", "le", "max", "at_most"]),
    operator("gt", ValueKind::Number, "Greater than.", &[">", "greater", "greater_than"]),
    operator("gte", ValueKind::Number, "At least.", &[">=", "ge", "min", "at_least"]),
    operator("in", ValueKind::Scalars, "One of a list.", &["one_of", "any_of"]),
    operator("not_in", ValueKind::Scalars, "None of a list.", &["nin", "notin", "none_of"]),
    operator(
        "exists",
        ValueKind::Boolean,
        "Present and not null; with `false`, absent or null.",
        &["present", "defined"],
    ),
    operator(
        "regex",
        ValueKind::Text,
        "A pattern is found anywhere in the string; anchor it with `^…$`.",
        &["matches", "match", "regexp", "~", "=~", "pattern"],
    ),
    operator(
        "contains",
        ValueKind::Scalar,
        "A string has this part, or a list this element.",
        &["includes", "has"],
    ),
    operator(
        "starts_with",
        ValueKind::Text,
        "The string begins so.",
        &["prefix", "begins_with", "startswith", "startsWith"],
    ),
    operator(
        "path_within",
        ValueKind::Texts,
        "An absolute path lies in one of these directories.",
        &["within", "path_in", "inside", "under"],
    ),
    operator(
        "url_host_in",
        ValueKind::Texts,
        "The host of a URL is one of these: `api.example.com`, `*.example.com`.",
        &["host_in", "url_in", "domain_in", "host"],
    ),
];
