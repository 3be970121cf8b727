//! `validate_args`: validates arguments against a JSON Schema, with exact numbers.
//!
//! Schemas may not refer to other documents, and their patterns are searched in
//! linear time; a schema that cannot be compiled under these rules denies every call.
//! Schema and arguments may both be hostile, so the cost of validation is bounded
//! beforehand ([`cost`]), and a schema that exceeds the bound is refused.

mod cost;
mod locations;
mod unique;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value as Json};
use sluice_wire::json::{Kind, Value};

use self::cost::Cost;
use crate::decimal::Decimal;

/// The longest text of a number in bytes, and the largest power of ten: numbers are compared with
/// all their digits.
const LONGEST_NUMBER: usize = 400;
const LARGEST_MAGNITUDE: u64 = 400;
/// Bytes of text, and squared digits, that count as one more value: the time to reduce a fraction
/// grows with the square of its digits.
const TEXT_PIECE: usize = 32;
const NUMBER_PIECE: usize = 256;
/// The maximum size of one compiled pattern, and of its search cache, in bytes.
const PATTERN_BYTES: usize = 256 << 10;
const SEARCH_BYTES: usize = 1 << 20;

/// A compiled schema for a tool's arguments.
#[derive(Debug)]
pub(crate) struct ArgsSchema {
    validator: Validator,
    cost: Cost,
    outline: Outline,
}

impl ArgsSchema {
    /// Compiles a schema, or returns why that is impossible.
    pub(crate) fn compile(schema: &Json) -> Result<ArgsSchema, String> {
        if has_huge_number(schema) {
            return Err("a number in it is too long".into());
        }
        let cost = Cost::of(schema)?;
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(SEARCH_BYTES);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .with_keyword("uniqueItems", unique::keyword)
            .build(schema)
            .map_err(|error| cut(&error.masked().to_string(), LONGEST_TEXT))?;
        Ok(ArgsSchema { validator, cost, outline: Outline::of(schema) })
    }

    /// The size of its patterns, in bytes.
    pub(crate) fn pattern_bytes(&self) -> usize {
        self.cost.pattern_bytes
    }

    /// The first error in the arguments, if any.
    ///
    /// The library is asked only whether they are valid: its explanations go through all branches,
    /// which takes unbounded time, and copy values, which may be secret.
    pub(crate) fn refuse(&self, args: Option<Value<'_>>) -> Option<String> {
        let mut extent = Extent::default();
        if let Some(args) = args
            && let Err(problem) = extent.add(args, 0)
        {
            return Some(problem.into());
        }
        if let Some(problem) = self.cost.refuse(extent.depth, extent.size) {
            return Some(problem.into());
        }
        let json = args.map_or_else(|| Json::Object(Map::new()), to_serde);
        (!self.validator.is_valid(&json)).then(|| self.outline.explain(&json))
    }
}

/// The depth and size of arguments.
#[derive(Default)]
struct Extent {
    depth: usize,
    /// The number of values; long ones count as several.
    size: u64,
}

impl Extent {
    fn add(&mut self, value: Value<'_>, depth: usize) -> Result<(), &'static str> {
        self.depth = self.depth.max(depth);
        self.count(value.as_str().map_or(0, |text| text.len() / TEXT_PIECE));
        if let Some(number) = value.as_number() {
            if is_huge(number) {
                return Err("a number is too long to be checked");
            }
            self.count(digits(number).saturating_pow(2) / NUMBER_PIECE);
        }
        for item in value.items().into_iter().flatten() {
            self.add(item, depth + 1)?;
        }
        for (key, value) in value.members().into_iter().flatten() {
            self.count(key.as_str().map_or(0, |text| text.len() / TEXT_PIECE));
            self.add(value, depth + 1)?;
        }
        Ok(())
    }

    fn count(&mut self, pieces: usize) {
        self.size = self.size.saturating_add(1 + u64::try_from(pieces).unwrap_or(u64::MAX));
    }
}

/// Whether a number would take too long to write out.
fn is_huge(text: &str) -> bool {
    // Zero has no magnitude, but the library still writes out its exponent.
    text.len() > LONGEST_NUMBER
        || Decimal::read(text).magnitude().unsigned_abs() > LARGEST_MAGNITUDE
        || digits(text) > 2 * LONGEST_NUMBER
}

/// The approximate number of digits of a number when written out.
fn digits(text: &str) -> usize {
    let exponent = text.split_once(['e', 'E']).map_or(Ok(0), |(_, exponent)| exponent.parse());
    exponent
        .map_or(usize::MAX, |exponent: isize| exponent.unsigned_abs().saturating_add(text.len()))
}

fn has_huge_number(schema: &Json) -> bool {
    match schema {
        Json::Number(number) => is_huge(number.as_str()),
        Json::Array(items) => items.iter().any(has_huge_number),
        Json::Object(members) => members.values().any(has_huge_number),
        _ => false,
    }
}

/// The property names at a schema's top level, which explain most refusals.
#[derive(Debug, Default)]
struct Outline {
    required: Box<[Box<str>]>,
    /// The only allowed names, if others are refused.
    only: Option<Box<[Box<str>]>>,
}

impl Outline {
    fn of(schema: &Json) -> Outline {
        // Older drafts ignore everything beside `$ref`.
        if schema.get("$ref").is_some() {
            return Outline::default();
        }
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
        let known = schema.get("properties").and_then(Json::as_object).into_iter().flatten();
        let closed = schema.get("additionalProperties") == Some(&Json::Bool(false))
            && schema.get("patternProperties").is_none();
        Outline {
            required: required.filter_map(Json::as_str).map(Box::from).collect(),
            only: closed.then(|| known.map(|(name, _)| name.as_str().into()).collect()),
        }
    }

    /// Why arguments are invalid, if the top level shows it; values are not repeated.
    fn explain(&self, args: &Json) -> String {
        let Json::Object(args) = args else { return "they are not an object".into() };
        if let Some(name) = self.required.iter().find(|name| !args.contains_key(&***name)) {
            return format!("`{}` is missing", short(name));
        }
        let unknown = self
            .only
            .as_ref()
            .and_then(|only| args.keys().find(|name| !only.iter().any(|known| **known == ***name)));
        match unknown {
            Some(name) => format!("`{}` is not an argument of this tool", short(name)),
            None => "they do not fit the schema".into(),
        }
    }
}

/// The longest text for people, and the longest name in it, in characters.
const LONGEST_TEXT: usize = 300;
const LONGEST_NAME: usize = 100;

/// Shortens an untrusted name for display.
fn short(name: &str) -> String {
    cut(name, LONGEST_NAME)
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into(),
    }
}

/// Converts a value for the schema library.
///
/// It is built node by node and not by parsing the text again: `serde_json` reads an object with
/// its private number key as a number.
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

#[cfg(test)]
mod tests;
