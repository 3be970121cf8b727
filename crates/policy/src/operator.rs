//! The tests that conditions apply to the values at their path.
//!
//! A test is true or false, or reports that the value has the wrong type. Values
//! are never converted.

mod hosts;
mod paths;
mod pattern;
mod scalar;
mod search_cost;

use sluice_wire::json::{Kind, Value};

pub(crate) use hosts::{HostPattern, Hosts};
pub(crate) use paths::Directories;
pub use pattern::{PatternBudget, TextPattern, TextPatternError};
pub(crate) use scalar::{Number, Scalar};

use crate::{decimal::Decimal, path::Unjudgeable};

/// One operator with its value.
#[derive(Debug)]
pub(crate) enum Test {
    /// `eq` and `in`: equal to one of these.
    OneOf(Box<[Scalar]>),
    /// `neq` and `not_in`: equal to none of these.
    NoneOf(Box<[Scalar]>),
    Less(Number),
    LessOrEqual(Number),
    Greater(Number),
    GreaterOrEqual(Number),
    /// Present and not null, or (`false`) absent or null.
    Exists(bool),
    Regex(TextPattern),
    Contains(Scalar),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    PathWithin(Directories),
    UrlHostIn(Hosts),
}

impl Test {
    /// Whether the test holds for a value.
    pub(crate) fn holds(&self, found: Option<Value<'_>>) -> Result<bool, Unjudgeable> {
        if let Test::Exists(wanted) = self {
            let present = found.is_some_and(|value| !value.is_null());
            return Ok(present == *wanted);
        }
        let Some(value) = found else { return Ok(false) };
        match self {
            Test::Exists(_) => Err(Unjudgeable::Type),
            Test::OneOf(scalars) => scalar::is_one_of(value, scalars),
            Test::NoneOf(scalars) => scalar::is_one_of(value, scalars).map(|is| !is),
            Test::Less(bound) => Ok(number(value)? < bound.decimal()),
            Test::LessOrEqual(bound) => Ok(number(value)? <= bound.decimal()),
            Test::Greater(bound) => Ok(number(value)? > bound.decimal()),
            Test::GreaterOrEqual(bound) => Ok(number(value)? >= bound.decimal()),
            Test::Regex(pattern) => Ok(pattern.occurs_in(text(value)?)),
            Test::Contains(part) => contains(value, part),
            Test::StartsWith(start) => Ok(text(value)?.starts_with(&**start)),
            Test::EndsWith(end) => Ok(text(value)?.ends_with(&**end)),
            Test::PathWithin(directories) => directories.hold(text(value)?),
            Test::UrlHostIn(hosts) => hosts.include(text(value)?),
        }
    }
}

fn number(value: Value<'_>) -> Result<Decimal<'_>, Unjudgeable> {
    value.as_number().map(Decimal::read).ok_or(Unjudgeable::Type)
}

fn text(value: Value<'_>) -> Result<&str, Unjudgeable> {
    value.as_str().ok_or(Unjudgeable::Type)
}

/// A substring of a string, or an element of a list.
fn contains(value: Value<'_>, part: &Scalar) -> Result<bool, Unjudgeable> {
    match (value.kind(), part) {
        (Kind::String, Scalar::String(part)) => Ok(text(value)?.contains(&**part)),
        (Kind::List, _) => Ok(value.items().into_iter().flatten().any(|item| part.equals(item))),
        _ => Err(Unjudgeable::Type),
    }
}
