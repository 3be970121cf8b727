//! The six categories, and the first reading of them from a tool's own hints.

use std::fmt;

use sluice_wire::json::Value;

/// What a tool can do, from harmless to most dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Fetches, without side effect.
    Read,
    /// None of the others.
    Other,
    /// Creates or changes what can be undone.
    Write,
    /// Runs code, or starts something whose effect hangs on the arguments.
    Execute,
    /// Deletes or overwrites for good.
    Destructive,
    /// Moves money or commits to paying.
    Financial,
}

impl Category {
    /// All categories, by rank.
    pub const ALL: [Category; 6] = [
        Category::Read,
        Category::Other,
        Category::Write,
        Category::Execute,
        Category::Destructive,
        Category::Financial,
    ];

    /// The lower-case name, as it stands in policies after `@`.
    pub fn name(self) -> &'static str {
        match self {
            Category::Read => "read",
            Category::Other => "other",
            Category::Write => "write",
            Category::Execute => "execute",
            Category::Destructive => "destructive",
            Category::Financial => "financial",
        }
    }

    /// The name as a heading, as reports write it.
    pub fn title(self) -> &'static str {
        match self {
            Category::Read => "Read",
            Category::Other => "Other",
            Category::Write => "Write",
            Category::Execute => "Execute",
            Category::Destructive => "Destructive",
            Category::Financial => "Financial",
        }
    }

    /// The category of that name.
    pub fn from_name(name: &str) -> Option<Category> {
        Category::ALL.into_iter().find(|category| category.name() == name)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The category a tool's annotations claim.
///
/// Only an explicit `true` counts: absent hints and hints of a wrong type say
/// nothing, and a tool that says nothing is taken to write.
pub fn from_hints(annotations: Option<Value<'_>>) -> Category {
    let says =
        |hint| annotations.and_then(|hints| hints.get(hint)).and_then(Value::as_bool) == Some(true);
    if says("destructiveHint") {
        Category::Destructive
    } else if says("readOnlyHint") {
        Category::Read
    } else {
        Category::Write
    }
}

#[cfg(test)]
mod tests {
    use sluice_wire::json::{Bounds, Document};

    use super::{Category, from_hints};

    fn check(annotations: &str, expected: Category) {
        let document = Document::parse(annotations, &Bounds::default()).unwrap();
        assert_eq!(from_hints(Some(document.root())), expected, "{annotations}");
    }

    #[test]
    fn explicit_hints_decide() {
        check(r#"{"destructiveHint": true}"#, Category::Destructive);
        check(r#"{"destructiveHint": true, "readOnlyHint": true}"#, Category::Destructive);
        check(r#"{"readOnlyHint": true}"#, Category::Read);
        check(r#"{"readOnlyHint": true, "destructiveHint": false}"#, Category::Read);
    }

    #[test]
    fn anything_else_writes() {
        check("{}", Category::Write);
        check(r#"{"readOnlyHint": false}"#, Category::Write);
        check(r#"{"readOnlyHint": "true"}"#, Category::Write);
        check(r#"{"readOnlyHint": null}"#, Category::Write);
        check("[true]", Category::Write);
        assert_eq!(from_hints(None), Category::Write);
    }

    #[test]
    fn categories_rank_from_read_to_financial() {
        assert!(Category::ALL.is_sorted());
        for category in Category::ALL {
            assert_eq!(Category::from_name(category.name()), Some(category));
        }
    }
}
