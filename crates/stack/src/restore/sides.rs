//! One entry before and after it was rewritten, and how it is restored in a file that
//! has been edited meanwhile.

use serde_json::Value;

use crate::{
    adopt::value,
    digest::of_value,
    file::Pieces,
    json,
    locations::{FileFormat, Syntax},
    splice::{Edit, splice},
    tables,
};

/// An entry before and after it was rewritten.
pub(super) struct Sides<'a> {
    pub(super) form: FileFormat,
    pub(super) keys: &'a [String],
    pub(super) original: &'a str,
    pub(super) rewritten: &'a str,
}

impl Sides<'_> {
    /// Whether the entry has its original content: somebody has restored it, or the rewrite or the
    /// restore was interrupted.
    pub(super) fn is_done(&self, text: &str) -> bool {
        let entry = |text| self.entry(text).as_ref().map(of_value);
        let now = entry(text);
        now.is_some() && now == entry(self.original)
    }

    /// The text with the original entry; `None` if its meaning has changed since.
    pub(super) fn revert(&self, text: &str) -> Option<String> {
        let (now, then) = (self.region(text)?, self.region(self.rewritten)?);
        let first = self.original.get(self.region(self.original)?)?;
        if text.get(now.clone()) == self.rewritten.get(then) {
            return splice(text, vec![Edit::new(now, first)]);
        }
        // Some clients rewrite their whole file in their own layout.
        let (current, rewritten) = (self.entry(text)?, self.entry(self.rewritten)?);
        match self.form.syntax {
            Syntax::Json if of_value(&current) == of_value(&rewritten) => {
                splice(text, vec![Edit::new(now, first)])
            }
            Syntax::Toml if tables::is_same_change(&current, &rewritten) => {
                let has_args = self.pieces(self.original).is_some_and(|old| old.args.is_some());
                // Keys that we did not write keep their place where possible.
                let program = || self.program_taken_back(text);
                let whole = || tables::put_back(text, self.original, self.keys);
                if has_args { program().or_else(whole) } else { whole().or_else(program) }
            }
            _ => self.program_taken_back(text),
        }
    }

    /// Reverts only program and arguments, in an entry whose other parts have changed.
    fn program_taken_back(&self, text: &str) -> Option<String> {
        let (now, then, first) =
            (self.pieces(text)?, self.pieces(self.rewritten)?, self.pieces(self.original)?);
        let (current, rewritten) = (self.entry(text)?, self.entry(self.rewritten)?);
        let is_ours = ["command", "args"].iter().all(|key| current.get(key) == rewritten.get(key));
        then.args.filter(|_| is_ours)?;
        let args = match first.args {
            Some(args) => self.original.get(args)?,
            None => "[]",
        };
        let program = self.original.get(first.program)?;
        splice(text, vec![Edit::new(now.program, program), Edit::new(now.args?, args)])
    }

    /// The keys whose values differ from those that we wrote, for people. The values may be
    /// secrets, so they are not included.
    pub(super) fn differences(&self, text: &str) -> Vec<String> {
        let mut keys = Vec::new();
        if let (Some(now), Some(then)) = (self.entry(text), self.entry(self.rewritten)) {
            differing(&now, &then, "", &mut keys);
        }
        keys
    }

    fn entry(&self, text: &str) -> Option<Value> {
        value(text, self.form, self.keys)
    }

    fn region(&self, text: &str) -> Option<std::ops::Range<usize>> {
        match self.form.syntax {
            Syntax::Json => json::region(text, self.keys),
            Syntax::Toml => tables::region(text, self.keys),
        }
    }

    fn pieces(&self, text: &str) -> Option<Pieces> {
        match self.form.syntax {
            Syntax::Json => json::pieces(text, self.keys),
            Syntax::Toml => tables::pieces(text, self.keys),
        }
    }
}

/// Collects the paths at which two values differ, down to the members of objects.
fn differing(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    if one == other {
        return;
    }
    let (Some(left), Some(right)) = (one.as_object(), other.as_object()) else {
        found.push(path.to_owned());
        return;
    };
    let added = right.keys().filter(|key| !left.contains_key(*key));
    let mut keys: Vec<&String> = left.keys().chain(added).collect();
    keys.sort_unstable();
    for key in keys {
        let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (left.get(key), right.get(key)) {
            (Some(one), Some(other)) => differing(one, other, &inner, found),
            _ => found.push(inner),
        }
    }
}
