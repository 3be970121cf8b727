//! Reads a call's arguments, with error messages that say what is expected.

use sluice_wire::json::{Kind, Value};

/// An error in a call's arguments, written for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("unknown argument `{argument}`: {expected}")]
    Unknown { argument: String, expected: String },
    #[error("`{name}` is missing: it must be {expected}")]
    Missing { name: String, expected: &'static str },
    #[error("`{name}` must be {expected}")]
    Type { name: String, expected: &'static str },
    #[error("the arguments are too long to be sent in a URL")]
    TooLong,
}

const TEXT: &str = "a string";
const FLAG: &str = "true or false";
const OBJECT: &str = "an object";

/// The arguments of one call, all of them known.
#[derive(Debug)]
pub(crate) struct Arguments<'a> {
    object: Option<Value<'a>>,
}

impl<'a> Arguments<'a> {
    /// Reads the arguments of a tool, which may only be the `known` ones.
    pub(crate) fn read(
        object: Option<Value<'a>>,
        known: impl Iterator<Item = &'static str> + Clone,
    ) -> Result<Self, Problem> {
        for (key, _) in object.and_then(Value::members).into_iter().flatten() {
            let key = key.as_str().unwrap_or_default();
            if !known.clone().any(|name| name == key) {
                let names: Vec<String> = known.map(|name| format!("`{name}`")).collect();
                let expected = match names[..] {
                    [] => "this tool takes none".to_owned(),
                    _ => format!("expected {}", names.join(", ")),
                };
                return Err(Problem::Unknown {
                    argument: key.chars().take(64).collect(),
                    expected,
                });
            }
        }
        Ok(Arguments { object })
    }

    fn get(&self, name: &str) -> Option<Value<'a>> {
        self.object.and_then(|object| object.get(name))
    }

    fn require(&self, name: &str, expected: &'static str) -> Result<Value<'a>, Problem> {
        self.get(name).ok_or_else(|| Problem::Missing { name: name.to_owned(), expected })
    }

    /// A required text.
    pub(crate) fn text(&self, name: &str) -> Result<&'a str, Problem> {
        text(name, self.require(name, TEXT)?)
    }

    /// A required text, as JSON.
    pub(crate) fn text_value(&self, name: &str) -> Result<Value<'a>, Problem> {
        let value = self.require(name, TEXT)?;
        text(name, value).map(|_| value)
    }

    /// An optional text.
    pub(crate) fn text_or(&self, name: &str, default: &'static str) -> Result<&'a str, Problem> {
        self.get(name).map_or(Ok(default), |value| text(name, value))
    }

    /// An optional text that may be null.
    pub(crate) fn text_or_null(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        let value = self.get(name).filter(|value| !value.is_null());
        value.map(|value| text(name, value)).transpose()
    }

    /// An optional flag. Words such as `yes` are accepted, because the original accepts them and
    /// models send them.
    pub(crate) fn flag_or(&self, name: &str, default: bool) -> Result<bool, Problem> {
        let Some(value) = self.get(name) else { return Ok(default) };
        let word = value.as_str().or_else(|| value.as_number()).map(str::to_ascii_lowercase);
        let meant = match word.as_deref() {
            Some("true" | "t" | "yes" | "y" | "on" | "1") => Some(true),
            Some("false" | "f" | "no" | "n" | "off" | "0") => Some(false),
            _ => value.as_bool(),
        };
        meant.ok_or_else(|| wrong(name, FLAG))
    }

    /// A required object.
    pub(crate) fn object(&self, name: &str) -> Result<Value<'a>, Problem> {
        let value = self.require(name, OBJECT)?;
        if value.kind() == Kind::Object { Ok(value) } else { Err(wrong(name, OBJECT)) }
    }
}

fn text<'a>(name: &str, value: Value<'a>) -> Result<&'a str, Problem> {
    value.as_str().ok_or_else(|| wrong(name, TEXT))
}

fn wrong(name: &str, expected: &'static str) -> Problem {
    Problem::Type { name: name.to_owned(), expected }
}
