//! The subschemas of a schema and the references between them.
//!
//! Reading them refuses everything that cannot be followed statically, so that
//! [`cost`](super::cost) sees every step that a validator can take.

use std::{borrow::Cow, collections::HashMap};

use regex_automata::{dfa::onepass, nfa::thompson};
use serde_json::{Map, Value as Json};

/// The maximum number of locations in one schema.
const MOST_LOCATIONS: usize = 20_000;
/// The maximum number of patterns in one schema: each is compiled and kept.
const MOST_PATTERNS: usize = 500;
/// The maximum size of all patterns in one schema, in bytes, if they can be compiled here.
const MOST_PATTERN_BYTES: usize = 2 << 20;
/// The cost of a pattern for a piece of text: a search reads every byte.
const PATTERN: u64 = 32;
/// The cost of a pattern that only the library can compile.
const UNKNOWN_PATTERN: u64 = 65_536;
/// The number of states up to which a pattern's search never needs many threads.
const FEW_STATES: usize = 64;
/// The cost of `uniqueItems`, which examines everything inside the list.
const UNIQUE: u64 = 64;
/// The cost of comparing with a number; more with many digits.
const NUMBER: u64 = 16;
/// The additional cost of `multipleOf`, which reduces a fraction.
const MULTIPLE: u64 = 256;

/// One subschema, and the subschemas that it refers to, by number.
#[derive(Debug, Default)]
pub(super) struct Location {
    /// Steps for its own keywords.
    pub(super) own: u64,
    /// Checked against the same value.
    pub(super) same: Vec<usize>,
    /// Checked against members or items, at most one of these for each.
    pub(super) one: Vec<usize>,
    /// Checked against members or items, possibly all of these for each.
    pub(super) each: Vec<usize>,
    /// Whether it first needs to know what the others have evaluated.
    pub(super) unevaluated: bool,
}

/// All reachable locations; the first is the whole schema.
pub(super) fn locations(schema: &Json) -> Result<Locations, String> {
    let mut reader = Reader {
        root: schema,
        numbers: HashMap::new(),
        found: vec![],
        patterns: 0,
        pattern_bytes: 0,
    };
    reader.number(schema);
    let mut locations = Vec::new();
    while let Some(next) = reader.found.get(locations.len()) {
        locations.push(reader.read(next)?);
        if reader.found.len() > MOST_LOCATIONS {
            return Err(format!("it has more than {MOST_LOCATIONS} subschemas"));
        }
    }
    Ok(Locations { all: locations, pattern_bytes: reader.pattern_bytes })
}

/// A schema's locations, and the size of its patterns.
#[derive(Debug)]
pub(super) struct Locations {
    pub(super) all: Vec<Location>,
    pub(super) pattern_bytes: usize,
}

struct Reader<'s> {
    root: &'s Json,
    /// Keyed by address, so that two references to one subschema are one location.
    numbers: HashMap<*const Json, usize>,
    found: Vec<&'s Json>,
    patterns: usize,
    pattern_bytes: usize,
}

impl<'s> Reader<'s> {
    fn number(&mut self, schema: &'s Json) -> usize {
        *self.numbers.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            self.found.push(schema);
            self.found.len() - 1
        })
    }

    fn numbers(&mut self, schemas: impl IntoIterator<Item = &'s Json>) -> Vec<usize> {
        schemas.into_iter().map(|schema| self.number(schema)).collect()
    }

    fn read(&mut self, schema: &'s Json) -> Result<Location, String> {
        let mut location = Location { own: 1, ..Location::default() };
        self.refuse_name(schema)?;
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            self.follow(&mut location, keyword, value)?;
            location.own = location.own.saturating_add(self.weigh(keyword, value)?);
        }
        Ok(location)
    }

    /// Adds the subschemas of one keyword, whatever the schema's draft.
    fn follow(&mut self, at: &mut Location, keyword: &str, value: &'s Json) -> Result<(), String> {
        match keyword {
            "$ref" => {
                let target = self.resolve(value.as_str().unwrap_or_default())?;
                at.same.push(self.number(target));
            }
            "$dynamicRef" | "$recursiveRef" => return Err(format!("it uses `{keyword}`")),
            "allOf" | "anyOf" | "oneOf" => at.same.extend(self.numbers(items(value))),
            "not" | "if" | "then" | "else" => at.same.push(self.number(value)),
            "dependentSchemas" => at.same.extend(self.numbers(members(value))),
            "dependencies" => {
                at.same.extend(self.numbers(members(value).filter(|value| !value.is_array())));
            }
            "properties" => at.one.extend(self.numbers(members(value))),
            "prefixItems" => at.one.extend(self.numbers(items(value))),
            "items" if value.is_array() => at.one.extend(self.numbers(items(value))),
            "patternProperties" => at.each.extend(self.numbers(members(value))),
            "items" | "additionalItems" | "contains" | "additionalProperties" | "propertyNames" => {
                at.each.push(self.number(value));
            }
            "unevaluatedProperties" | "unevaluatedItems" => {
                at.each.push(self.number(value));
                at.unevaluated = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// The steps of one keyword by itself.
    fn weigh(&mut self, keyword: &str, value: &Json) -> Result<u64, String> {
        Ok(match keyword {
            "enum" | "const" | "required" | "dependentRequired" | "minimum" | "maximum"
            | "exclusiveMinimum" | "exclusiveMaximum" => size(value),
            "dependencies" => members(value).filter(|value| value.is_array()).map(size).sum(),
            "properties" => count(members(value).count()),
            "pattern" => self.pattern(value.as_str().unwrap_or_default())?,
            "patternProperties" => {
                let mut patterns = value.as_object().into_iter().flat_map(Map::keys);
                patterns
                    .try_fold(0, |sum, pattern| Ok::<_, String>(sum + self.pattern(pattern)?))?
            }
            "uniqueItems" => UNIQUE,
            "multipleOf" => MULTIPLE + size(value),
            _ => 0,
        })
    }

    /// The steps of one pattern for a piece of text.
    fn pattern(&mut self, pattern: &str) -> Result<u64, String> {
        self.patterns += 1;
        if self.patterns > MOST_PATTERNS {
            return Err(format!("it has more than {MOST_PATTERNS} patterns"));
        }
        let (steps, bytes) =
            search_cost(pattern).unwrap_or((UNKNOWN_PATTERN, super::PATTERN_BYTES));
        self.pattern_bytes = self.pattern_bytes.saturating_add(bytes);
        if self.pattern_bytes > MOST_PATTERN_BYTES {
            return Err("its patterns take more than 2 MiB".into());
        }
        Ok(steps)
    }

    /// The subschema that a reference names.
    fn resolve(&self, reference: &str) -> Result<&'s Json, String> {
        let elsewhere = || format!("`{}` is not a reference within it", super::short(reference));
        let fragment = reference.strip_prefix('#').ok_or_else(elsewhere)?;
        let pointer = percent_decoded(fragment).ok_or_else(elsewhere)?;
        let mut place = self.root;
        if pointer.is_empty() {
            return Ok(place);
        }
        for segment in pointer.strip_prefix('/').ok_or_else(elsewhere)?.split('/') {
            let next = match place {
                Json::Array(items) => segment.parse().ok().and_then(|at: usize| items.get(at)),
                _ => place.get(segment.replace("~1", "/").replace("~0", "~")),
            };
            place = next.ok_or_else(|| format!("`{}` leads nowhere", super::short(reference)))?;
            self.refuse_name(place)?;
        }
        Ok(place)
    }

    /// Refuses an id below the root, because it changes the meaning of references in it.
    fn refuse_name(&self, place: &Json) -> Result<(), String> {
        let named = |key| place.get(key).is_some_and(Json::is_string);
        if !std::ptr::eq(place, self.root) && (named("$id") || named("id")) {
            return Err("a subschema has an `$id`".into());
        }
        Ok(())
    }
}

fn items(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_object().into_iter().flat_map(Map::values)
}

/// The steps to compare with a value.
fn size(value: &Json) -> u64 {
    let number = value.as_number().map_or(0, |number| {
        NUMBER + count(super::digits(number.as_str()).saturating_pow(2)) / NUMBER
    });
    1 + number + items(value).chain(members(value)).map(size).sum::<u64>()
}

fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}

/// The steps of a search for a piece of text, and the pattern's size, if it can be compiled.
fn search_cost(pattern: &str) -> Option<(u64, usize)> {
    // These classes are ASCII in a schema, but Unicode in this compiler.
    let pattern = pattern.replace(r"\w", "[0-9A-Za-z_]").replace(r"\d", "[0-9]");
    let bounds = thompson::Config::new().nfa_size_limit(Some(super::PATTERN_BYTES));
    let compiled = thompson::Compiler::new().configure(bounds).build(&pattern).ok()?;
    let (states, bytes) = (compiled.states().len(), compiled.memory_usage());
    let bounds = onepass::Config::new().size_limit(Some(super::SEARCH_BYTES));
    // Otherwise each byte may be examined in every state.
    let is_plain = states <= FEW_STATES
        || compiled.is_always_start_anchored()
            && onepass::Builder::new().configure(bounds).build_from_nfa(compiled).is_ok();
    let steps = if is_plain { PATTERN } else { PATTERN.saturating_mul(count(states)) };
    Some((steps, bytes))
}

/// A URI fragment's text, if it is well formed.
fn percent_decoded(fragment: &str) -> Option<Cow<'_, str>> {
    if !fragment.contains('%') {
        return Some(fragment.into());
    }
    let mut pieces = fragment.split('%');
    let mut decoded = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::{PATTERN, search_cost};

    #[test]
    fn only_patterns_with_many_threads_cost_more() {
        let search_steps = |pattern| search_cost(pattern).map(|(steps, _)| steps);
        for plain in ["^[a-z]+$", r"^[\w-]{1,255}$", "a|b", r"\d{4}-\d{2}-\d{2}"] {
            assert_eq!(search_steps(plain), Some(PATTERN), "{plain}");
        }
        for costly in ["[ab]*a[ab]{200}c", "^[ab]*a[ab]{200}c"] {
            assert!(search_steps(costly).unwrap() > 200 * PATTERN, "{costly}");
        }
        assert_eq!(search_steps("(?=a)"), None);
    }
}
