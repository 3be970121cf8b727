//! Paths into a call's arguments, such as `args.items.*.id`.
//!
//! A walk calls a closure for every value that the path leads to, with `None` for an
//! absent one, and stops at the first value that cannot be judged.

use sluice_wire::{
    json::{Kind, Value},
    look_alike::Governed,
};

/// A path that begins with `args.`.
#[derive(Debug, Clone)]
pub struct ArgPath {
    text: Box<str>,
    steps: Box<[PathStep]>,
}

#[derive(Debug, Clone)]
enum PathStep {
    /// `*`: every element of a list.
    Every,
    /// A key of an object, or an index of a list if it is a number.
    Name { key: Governed, place: Option<usize> },
}

/// Why a condition cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unjudgeable {
    /// A value does not have the type that the operator or the path needs.
    Type,
    /// An object on the path has another key that resembles the governed one.
    LookAlike,
}

impl Unjudgeable {
    /// The suffix of the rule's id.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Unjudgeable::Type => "(type)",
            Unjudgeable::LookAlike => "(look-alike)",
        }
    }
}

impl ArgPath {
    /// Parses a path; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<ArgPath> {
        let names = text.strip_prefix("args.")?;
        let steps = names.split('.').map(PathStep::parse).collect::<Option<_>>()?;
        Some(ArgPath { text: text.into(), steps })
    }

    /// The path as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the path selects every element of some list.
    pub fn is_plural(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, PathStep::Every))
    }

    /// Calls `leaf` for each value that the path selects, with `None` for an absent one.
    pub(crate) fn walk<'d>(
        &self,
        args: Option<Value<'d>>,
        leaf: &mut impl FnMut(Option<Value<'d>>) -> Result<(), Unjudgeable>,
    ) -> Result<(), Unjudgeable> {
        match args {
            Some(args) => walk(&self.steps, args, leaf),
            // A call without arguments has an empty object, which is not a list.
            None if matches!(self.steps.first(), Some(PathStep::Every)) => Err(Unjudgeable::Type),
            None => leaf(None),
        }
    }

    /// All values that the path selects in a call's arguments.
    pub fn values<'d>(&self, args: Option<Value<'d>>) -> Vec<Value<'d>> {
        let mut found = Vec::new();
        // If the walk stops at a value that cannot be judged, the values before it are returned.
        let _ = self.walk(args, &mut |value| {
            found.extend(value);
            Ok(())
        });
        found
    }

    /// The one value that a path without `*` selects.
    pub(crate) fn single<'d>(
        &self,
        args: Option<Value<'d>>,
    ) -> Result<Option<Value<'d>>, Unjudgeable> {
        let mut found = None;
        self.walk(args, &mut |value| {
            found = value;
            Ok(())
        })?;
        Ok(found)
    }
}

impl PathStep {
    fn parse(name: &str) -> Option<PathStep> {
        match name {
            "" => None,
            "*" => Some(PathStep::Every),
            _ => {
                let digits = name.bytes().all(|byte| byte.is_ascii_digit());
                let canonical = name == "0" || (digits && !name.starts_with('0'));
                // A number too large for the type is beyond the end of any list.
                let place = canonical.then(|| name.parse().unwrap_or(usize::MAX));
                Some(PathStep::Name { key: Governed::new(name), place })
            }
        }
    }
}

fn walk<'d>(
    steps: &[PathStep],
    value: Value<'d>,
    leaf: &mut impl FnMut(Option<Value<'d>>) -> Result<(), Unjudgeable>,
) -> Result<(), Unjudgeable> {
    let Some((step, rest)) = steps.split_first() else { return leaf(Some(value)) };
    match (value.kind(), step) {
        (Kind::Object, PathStep::Name { key, .. }) => match member(value, key)? {
            Some(value) => walk(rest, value, leaf),
            None => leaf(None),
        },
        (Kind::List, PathStep::Name { place: Some(place), .. }) => {
            match value.items().and_then(|mut items| items.nth(*place)) {
                Some(value) => walk(rest, value, leaf),
                None => leaf(None),
            }
        }
        (Kind::List, PathStep::Every) => {
            let mut items = value.items().into_iter().flatten().peekable();
            if items.peek().is_none() {
                return leaf(None);
            }
            items.try_for_each(|item| walk(rest, item, leaf))
        }
        _ => Err(Unjudgeable::Type),
    }
}

/// The member with this key, unless the object also has a key that resembles it.
fn member<'d>(object: Value<'d>, key: &Governed) -> Result<Option<Value<'d>>, Unjudgeable> {
    let mut found = None;
    for (name, value) in object.members().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if name == key.name() {
            found = Some(value);
        } else if key.resembles(name) {
            return Err(Unjudgeable::LookAlike);
        }
    }
    Ok(found)
}
