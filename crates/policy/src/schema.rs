//! `validate_args`: arguments against a JSON Schema, with exact numbers.
//!
//! Schemas may not refer to anything outside themselves, and their patterns are
//! searched in linear time; one that cannot be compiled so denies every call.

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value as Json};
use sluice_wire::json::{Kind, Value};

/// A compiled schema for a tool's arguments.
#[derive(Debug)]
pub(crate) struct ArgsSchema(Validator);

impl ArgsSchema {
    /// Compiles a schema, or says why it cannot be.
    pub(crate) fn compile(schema: &Json) -> Result<ArgsSchema, String> {
        jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map(ArgsSchema)
            .map_err(|error| error.to_string())
    }

    /// What is wrong with the arguments, if anything.
    pub(crate) fn refuse(&self, args: Option<Value<'_>>) -> Option<String> {
        let args = args.map_or_else(|| Json::Object(Map::new()), to_serde);
        let error = self.0.validate(&args).err()?;
        let place = error.instance_path().to_string();
        // The error is worded without the argument's value: it goes into
        // answers and records, and values may be secret.
        let problem = error.masked().to_string();
        Some(if place.is_empty() { problem } else { format!("`{place}`: {problem}") })
    }
}

/// The same tree in the form the schema library takes.
///
/// Built node by node, never by parsing the text again: `serde_json` reads an
/// object with its own private number key as a number.
pub(crate) fn to_serde(value: Value<'_>) -> Json {
    match value.kind() {
        Kind::Null => Json::Null,
        Kind::Bool => Json::Bool(value.as_bool().unwrap_or_default()),
        Kind::Number => number(value.as_number().unwrap_or_default()),
        Kind::String => Json::String(value.as_str().unwrap_or_default().to_owned()),
        Kind::List => value.items().into_iter().flatten().map(to_serde).collect(),
        Kind::Object => Json::Object(
            value
                .members()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.as_str().unwrap_or_default().to_owned(), to_serde(value)))
                .collect(),
        ),
    }
}

/// A number with all of its digits.
pub(crate) fn number(text: &str) -> Json {
    text.parse().map_or(Json::Null, Json::Number)
}
