//! Edits parts of a message and leaves every other byte unchanged.

use crate::json::{Document, Value};

/// Changes to a document, applied in one pass.
#[derive(Debug)]
pub struct Edits<'d> {
    document: &'d Document,
    /// The offset and length of each value, and its replacement.
    changes: Vec<(usize, usize, String)>,
}

impl<'d> Edits<'d> {
    /// Starts without changes.
    pub fn new(document: &'d Document) -> Edits<'d> {
        Edits { document, changes: Vec::new() }
    }

    /// Replaces a value of this document by other JSON.
    ///
    /// INVARIANT: replaced values are not nested in each other.
    pub fn replace(&mut self, value: Value<'d>, json: String) {
        self.changes.push((value.offset(), value.raw().len(), json));
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The document's text with the changes applied.
    pub fn finish(mut self) -> String {
        self.changes.sort_unstable_by_key(|(start, _, _)| *start);
        let text = self.document.text();
        let mut edited = String::with_capacity(text.len());
        let mut done = 0;
        for (start, length, json) in &self.changes {
            edited.push_str(text.get(done..*start).unwrap_or_default());
            edited.push_str(json);
            done = start + length;
        }
        edited.push_str(text.get(done..).unwrap_or_default());
        edited
    }
}

/// The change to one member or element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Keep,
    Drop,
    /// Its value is replaced by this JSON.
    Become(String),
}

/// Writes an object with each member kept, dropped or replaced, and adds members at its end.
pub fn object<'d>(
    object: Value<'d>,
    mut fate: impl FnMut(&'d str, Value<'d>) -> Fate,
    added: &[(&str, String)],
) -> String {
    let mut parts = Vec::new();
    for (key, value) in object.members().into_iter().flatten() {
        match fate(key.as_str().unwrap_or_default(), value) {
            Fate::Keep => parts.push(format!("{}:{}", key.raw(), value.raw())),
            Fate::Drop => {}
            Fate::Become(json) => parts.push(format!("{}:{json}", key.raw())),
        }
    }
    parts.extend(added.iter().map(|(key, json)| format!("{}:{json}", quote(key))));
    format!("{{{}}}", parts.join(","))
}

/// Writes a list of the elements that `keep` selects.
pub fn list<'d>(list: Value<'d>, mut keep: impl FnMut(Value<'d>) -> bool) -> String {
    let kept: Vec<_> =
        list.items().into_iter().flatten().filter(|item| keep(*item)).map(Value::raw).collect();
    format!("[{}]", kept.join(","))
}

/// Quotes a text as a JSON string.
pub fn quote(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    // Writing to a string cannot fail.
    let _ = crate::json::write_string(&mut json, text);
    json
}

#[cfg(test)]
mod tests {
    use super::{Edits, Fate, list, object, quote};
    use crate::json::{Bounds, Document};

    fn read(text: &str) -> Document {
        Document::parse(text, &Bounds::default()).unwrap()
    }

    #[test]
    fn edits_change_only_the_named_values() {
        let document = read(r#"{ "a" : 1.0 , "b":[ 1,2 ], "c" : "x" }"#);
        let root = document.root();
        let mut edits = Edits::new(&document);
        assert!(edits.is_empty());
        edits.replace(root.get("c").unwrap(), quote("é\n"));
        edits.replace(root.get("a").unwrap(), "2".into());
        assert_eq!(edits.finish(), "{ \"a\" : 2 , \"b\":[ 1,2 ], \"c\" : \"é\\n\" }");
    }

    #[test]
    fn kept_members_and_elements_are_unchanged() {
        let document = read(r#"{"a": 1.0, "b": {"x": [1, 2.50]}, "n\u0061": null}"#);
        let fate = |key: &str, _| match key {
            "a" => Fate::Drop,
            "b" => Fate::Become("0".into()),
            _ => Fate::Keep,
        };
        let edited = object(document.root(), fate, &[("new", "[]".into())]);
        assert_eq!(edited, r#"{"b":0,"n\u0061":null,"new":[]}"#);
        let document = read("[1, {\"a\" : 2}, 3e1]");
        assert_eq!(list(document.root(), |item| item.raw() != "1"), "[{\"a\" : 2},3e1]");
    }
}
