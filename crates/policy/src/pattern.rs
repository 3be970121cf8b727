//! Patterns that select tools: a name, a name with `*`, or a category.

mod index;

use sluice_classify::Category;

pub(crate) use index::PatternIndex;

/// The tools that an entry of a policy selects.
///
/// Denials are reported in the order of the variants, and within each in the order of code points.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    Exact(Box<str>),
    Glob(Glob),
    Category(CategoryPattern),
}

/// A category, with its text, which determines its order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CategoryPattern {
    name: Box<str>,
    pub(crate) category: Category,
}

/// A name in which each `*` stands for any text, including none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glob(Box<str>);

impl Pattern {
    /// Parses a pattern; `None` if it starts with `@` but is not a category.
    pub(crate) fn parse(text: &str) -> Option<Pattern> {
        Some(match text.strip_prefix('@') {
            Some(name) => {
                let category = Category::from_name(name)?;
                Pattern::Category(CategoryPattern { name: text.into(), category })
            }
            None if text.contains('*') => Pattern::Glob(Glob::new(text)),
            None => Pattern::Exact(text.into()),
        })
    }

    /// The pattern as it was written.
    pub(crate) fn text(&self) -> &str {
        match self {
            Pattern::Exact(name) => name,
            Pattern::Glob(glob) => glob.text(),
            Pattern::Category(of) => &of.name,
        }
    }
}

impl Glob {
    /// A glob; without `*` it matches only itself.
    pub(crate) fn new(text: &str) -> Glob {
        Glob(text.into())
    }

    /// The glob as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether the whole `name` matches.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let Some((prefix, rest)) = self.0.split_once('*') else { return name == &*self.0 };
        let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(inner) = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix))
        else {
            return false;
        };
        // Matching each piece at its first occurrence leaves the most room for the next.
        middle
            .split('*')
            .try_fold(inner, |left, piece| left.split_once(piece).map(|(_, after)| after))
            .is_some()
    }

    /// The longest literal that every match contains.
    fn longest_piece(&self) -> &str {
        self.0.split('*').max_by_key(|piece| piece.len()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Glob, Pattern};

    fn check(glob: &str, name: &str, expected: bool) {
        assert_eq!(Glob::new(glob).matches(name), expected, "{glob} on {name}");
    }

    #[test]
    fn stars_match_any_text() {
        check("get_*", "get_user", true);
        check("get_*", "get_", true);
        check("get_*", "get", false);
        check("*_user", "get_user", true);
        check("*_user", "get_users", false);
        check("*", "", true);
        check("**", "anything", true);
        check("a*b*c", "abc", true);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "acb", false);
        check("*ab*ab*", "xabxab", true);
        check("*ab*ab*", "xabx", false);
        check("ab*ab", "ab", false);
        check("ab*ab", "abab", true);
        check("a*a*a", "aa", false);
        check("plain", "plain", true);
        check("é*", "éa", true);
    }

    #[test]
    fn names_come_before_patterns_and_patterns_before_categories() {
        let mut patterns: Vec<_> =
            ["@write", "b*", "z", "@other", "a", "a*"].map(Pattern::parse).into();
        patterns.sort();
        let expected: Vec<_> =
            ["a", "z", "a*", "b*", "@other", "@write"].map(Pattern::parse).into();
        assert_eq!(patterns, expected);
        assert_eq!(Pattern::parse("@reads"), None);
    }
}
