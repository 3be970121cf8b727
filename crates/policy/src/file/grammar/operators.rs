//! The operators: the value that each takes, its documentation, and the test it creates.
//!
//! A new operator needs a row here and a variant of [`Test`].

use crate::operator::{Number, Scalar, Test};

/// One operator.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) doc: &'static str,
    /// Spellings people try.
    pub(crate) also: &'static [&'static str],
}

/// The type of an operator's `value`, and how a test is built from it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    /// A string, number or boolean.
    Scalar(fn(Scalar) -> Test),
    /// A list of those.
    Scalars(fn(Box<[Scalar]>) -> Test),
    Number(fn(Number) -> Test),
    /// May be left out, and is then `true`.
    Boolean(fn(bool) -> Test),
    Text(fn(Box<str>) -> Test),
    /// A regular expression.
    Pattern,
    /// A list of absolute directories.
    Directories,
    /// A list of host patterns.
    Hosts,
}

const fn operator(
    name: &'static str,
    takes: Takes,
    doc: &'static str,
    also: &'static [&'static str],
) -> Operator {
    Operator { name, takes, doc, also }
}

pub(crate) static OPERATORS: [Operator; 14] = [
    operator(
        "eq",
        Takes::Scalar(|one| Test::OneOf(Box::new([one]))),
        "Equal.",
        &["=", "==", "===", "is", "equal", "equals"],
    ),
    operator(
        "neq",
        Takes::Scalar(|one| Test::NoneOf(Box::new([one]))),
        "Not equal.",
        &["!=", "<>", "ne", "not_eq", "not_equals"],
    ),
    operator("lt", Takes::Number(Test::Less), "Less than.", &["<", "less", "less_than"]),
    operator("lte", Takes::Number(Test::LessOrEqual), "At most.", &["<=", "le", "max", "at_most"]),
    operator(
        "gt",
        Takes::Number(Test::Greater),
        "Greater than.",
        &[">", "greater", "greater_than"],
    ),
    operator(
        "gte",
        Takes::Number(Test::GreaterOrEqual),
        "At least.",
        &[">=", "ge", "min", "at_least"],
    ),
    operator("in", Takes::Scalars(Test::OneOf), "One of a list.", &["one_of", "any_of"]),
    operator(
        "not_in",
        Takes::Scalars(Test::NoneOf),
        "None of a list.",
        &["nin", "notin", "none_of"],
    ),
    operator(
        "exists",
        Takes::Boolean(Test::Exists),
        "Present and not null; with `false`, absent or null.",
        &["present", "defined"],
    ),
    operator(
        "regex",
        Takes::Pattern,
        "A pattern is found anywhere in the string; anchor it with `^…$`.",
        &["matches", "match", "regexp", "~", "=~", "pattern"],
    ),
    operator(
        "contains",
        Takes::Scalar(Test::Contains),
        "A string has this part, or a list this element.",
        &["includes", "has"],
    ),
    operator(
        "starts_with",
        Takes::Text(Test::StartsWith),
        "The string begins so.",
        &["prefix", "begins_with", "startswith", "startsWith"],
    ),
    operator(
        "path_within",
        Takes::Directories,
        "An absolute path lies in one of these directories.",
        &["within", "path_in", "inside", "under"],
    ),
    operator(
        "url_host_in",
        Takes::Hosts,
        "The host of a URL is one of these: `api.example.com`, `*.example.com`.",
        &["host_in", "url_in", "domain_in", "host"],
    ),
];
