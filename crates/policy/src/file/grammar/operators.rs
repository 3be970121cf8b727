//! The operators: the value that each takes, its documentation, and the test it creates.
//!
//! A new operator needs a row here, with the phrases for messages, and a variant of
//! [`Test`].

use crate::{
    default_messages::{Needs, Phrase, Phrases},
    operator::{Number, Scalar, Test},
};

/// One operator.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) doc: &'static str,
    /// Its phrases for messages.
    pub(crate) phrases: Phrases,
    /// Other spellings that people try.
    pub(crate) also: &'static [&'static str],
}

/// The type of an operator's `value`, and how a test is built from it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    /// A string, number or boolean.
    Scalar(fn(Scalar) -> Test),
    /// A list of scalars.
    Scalars(fn(Box<[Scalar]>) -> Test),
    Number(fn(Number) -> Test),
    /// May be left out, and defaults to `true`.
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
    phrases: Phrases,
    also: &'static [&'static str],
) -> Operator {
    Operator { name, takes, doc, phrases, also }
}

/// Phrases of an operator that compares with its value.
const fn same_type(phrase: &'static str) -> Phrases {
    Phrases { condition: Phrase::Before(phrase), needs: Needs::TypeOfValue }
}

/// Phrases of an operator that needs a certain argument.
const fn needs(phrase: &'static str, argument: &'static str) -> Phrases {
    Phrases { condition: Phrase::Before(phrase), needs: Needs::Argument(argument) }
}

pub(crate) static OPERATORS: [Operator; 15] = [
    operator(
        "eq",
        Takes::Scalar(|one| Test::OneOf(Box::new([one]))),
        "Equal.",
        same_type("is"),
        &["=", "==", "===", "is", "equal", "equals"],
    ),
    operator(
        "neq",
        Takes::Scalar(|one| Test::NoneOf(Box::new([one]))),
        "Not equal.",
        same_type("is not"),
        &["!=", "<>", "ne", "not_eq", "not_equals"],
    ),
    operator(
        "lt",
        Takes::Number(Test::Less),
        "Less than.",
        needs("is less than", "a number"),
        &["<", "less", "less_than"],
    ),
    operator(
        "lte",
        Takes::Number(Test::LessOrEqual),
        "At most.",
        needs("is at most", "a number"),
        &["<=", "le", "max", "at_most"],
    ),
    operator(
        "gt",
        Takes::Number(Test::Greater),
        "Greater than.",
        needs("is more than", "a number"),
        &[">", "greater", "greater_than"],
    ),
    operator(
        "gte",
        Takes::Number(Test::GreaterOrEqual),
        "At least.",
        needs("is at least", "a number"),
        &[">=", "ge", "min", "at_least"],
    ),
    operator(
        "in",
        Takes::Scalars(Test::OneOf),
        "One of a list.",
        same_type("is one of"),
        &["one_of", "any_of"],
    ),
    operator(
        "not_in",
        Takes::Scalars(Test::NoneOf),
        "None of a list.",
        same_type("is none of"),
        &["nin", "notin", "none_of"],
    ),
    operator(
        "exists",
        Takes::Boolean(Test::Exists),
        "Present and not null; with `false`, absent or null.",
        Phrases { condition: Phrase::Given, needs: Needs::Containers },
        &["present", "defined"],
    ),
    operator(
        "regex",
        Takes::Pattern,
        "A pattern is found anywhere in the string; anchor it with `^…$`.",
        needs("matches", "a string"),
        &["matches", "match", "regexp", "~", "=~", "pattern"],
    ),
    operator(
        "contains",
        Takes::Scalar(Test::Contains),
        "A string has this part, or a list this element.",
        needs("contains", "a string or a list"),
        &["includes", "has"],
    ),
    operator(
        "starts_with",
        Takes::Text(Test::StartsWith),
        "The string begins so.",
        needs("starts with", "a string"),
        &["prefix", "begins_with", "startswith", "startsWith"],
    ),
    operator(
        "ends_with",
        Takes::Text(Test::EndsWith),
        "The string ends so.",
        needs("ends with", "a string"),
        &["suffix", "endswith", "endsWith"],
    ),
    operator(
        "path_within",
        Takes::Directories,
        "An absolute path lies in one of these directories.",
        needs("is a path in", "a plain absolute path"),
        &["within", "path_in", "inside", "under"],
    ),
    operator(
        "url_host_in",
        Takes::Hosts,
        "The host of a URL is one of these: `api.example.com`, `*.example.com`.",
        needs("is a URL on", "an absolute URL without a user name"),
        &["host_in", "url_in", "domain_in", "host"],
    ),
];
