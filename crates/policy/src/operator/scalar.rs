//! Strings, numbers and booleans as values of operators.

use sluice_wire::json::{Kind, Value};

use crate::{decimal::Decimal, path::Unjudgeable};

/// A value to compare with.
#[derive(Debug, Clone)]
pub(crate) enum Scalar {
    String(Box<str>),
    Number(Number),
    Bool(bool),
}

/// A number, stored as text.
#[derive(Debug, Clone)]
pub(crate) struct Number(Box<str>);

impl Number {
    /// `text` must be a JSON number.
    pub(crate) fn new(text: &str) -> Number {
        Number(text.into())
    }

    pub(crate) fn decimal(&self) -> Decimal<'_> {
        Decimal::read(&self.0)
    }
}

impl Scalar {
    fn kind(&self) -> Kind {
        match self {
            Scalar::String(_) => Kind::String,
            Scalar::Number(_) => Kind::Number,
            Scalar::Bool(_) => Kind::Bool,
        }
    }

    /// Whether type and value are equal.
    pub(crate) fn equals(&self, value: Value<'_>) -> bool {
        match self {
            Scalar::String(text) => value.as_str() == Some(text),
            Scalar::Number(number) => {
                value.as_number().is_some_and(|text| Decimal::read(text) == number.decimal())
            }
            Scalar::Bool(truth) => value.as_bool() == Some(*truth),
        }
    }
}

/// Whether `value` equals one of `scalars`, at least one of which must have its type.
pub(super) fn is_one_of(value: Value<'_>, scalars: &[Scalar]) -> Result<bool, Unjudgeable> {
    let kind = value.kind();
    let mut of_its_type = scalars.iter().filter(|scalar| scalar.kind() == kind).peekable();
    if of_its_type.peek().is_none() {
        return Err(Unjudgeable::Type);
    }
    Ok(of_its_type.any(|scalar| scalar.equals(value)))
}
