//! An index that finds the patterns matching a tool without trying each of them.
//!
//! Exact names are hashed and categories are listed. A glob is tried only if
//! its longest literal piece occurs in the name, and all pieces are searched
//! for in one pass, so thousands of globs cost little more than a few.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;
use sluice_classify::Category;
use smallvec::SmallVec;

use super::{Glob, Pattern};

/// Numbers of the matching patterns, in the order in which they were given.
pub(crate) type Matches = SmallVec<[u32; 8]>;

/// With fewer globs than this, trying each is faster than searching for pieces.
const FEW: usize = 8;

/// A list of patterns, searchable by tool.
#[derive(Debug, Default)]
pub(crate) struct PatternIndex {
    exact: HashMap<Box<str>, SmallVec<[u32; 1]>>,
    globs: Vec<(u32, Glob)>,
    pieces: Option<Pieces>,
    categories: Vec<(u32, Category)>,
}

#[derive(Debug)]
struct Pieces {
    search: AhoCorasick,
    /// For each piece, the indices in `globs` of the globs that contain it.
    needed_by: Vec<SmallVec<[u32; 1]>>,
    /// Globs of stars only, which have no piece.
    always: Vec<u32>,
}

impl PatternIndex {
    /// Builds the index; the patterns are numbered from zero.
    pub(crate) fn new<'p>(patterns: impl IntoIterator<Item = &'p Pattern>) -> PatternIndex {
        let mut index = PatternIndex::default();
        for (number, pattern) in (0..).zip(patterns) {
            match pattern {
                Pattern::Exact(name) => index.exact.entry(name.clone()).or_default().push(number),
                Pattern::Glob(glob) => index.globs.push((number, glob.clone())),
                Pattern::Category(of) => index.categories.push((number, of.category)),
            }
        }
        if index.globs.len() >= FEW {
            index.pieces = Pieces::new(&index.globs);
        }
        index
    }

    /// Whether there is any pattern.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.globs.is_empty() && self.categories.is_empty()
    }

    /// The exact names, unordered.
    pub(crate) fn exact_names(&self) -> impl Iterator<Item = &str> {
        self.exact.keys().map(|name| &**name)
    }

    /// The category patterns, for tools of unknown category.
    pub(crate) fn categories(&self) -> impl Iterator<Item = u32> + '_ {
        self.categories.iter().map(|(number, _)| *number)
    }

    /// The patterns that match a tool with this name and, if known, category.
    pub(crate) fn matches(&self, name: &str, category: Option<Category>) -> Matches {
        let mut found = Matches::new();
        if let Some(numbers) = self.exact.get(name) {
            found.extend_from_slice(numbers);
        }
        match &self.pieces {
            Some(pieces) => {
                pieces.candidates(name, &mut |place| self.try_glob(place, name, &mut found));
            }
            None => (0..self.globs.len()).for_each(|place| self.try_glob(place, name, &mut found)),
        }
        for (number, of) in &self.categories {
            if Some(*of) == category {
                found.push(*number);
            }
        }
        // Globs, names and categories share one numbering.
        found.sort_unstable();
        found
    }

    fn try_glob(&self, place: usize, name: &str, found: &mut Matches) {
        if let Some((number, glob)) = self.globs.get(place)
            && glob.matches(name)
        {
            found.push(*number);
        }
    }
}

impl Pieces {
    /// `None` if the automaton cannot be built; then every glob is tried.
    fn new(globs: &[(u32, Glob)]) -> Option<Pieces> {
        let mut always = Vec::new();
        let mut places: HashMap<&str, u32> = HashMap::new();
        let mut needles: Vec<&str> = Vec::new();
        let mut needed_by: Vec<SmallVec<[u32; 1]>> = Vec::new();
        for (place, (_, glob)) in (0..).zip(globs) {
            let piece = glob.longest_piece();
            if piece.is_empty() {
                always.push(place);
                continue;
            }
            let next = u32::try_from(needles.len()).ok()?;
            let needle = *places.entry(piece).or_insert(next);
            if needle == next {
                needles.push(piece);
                needed_by.push(SmallVec::new());
            }
            needed_by.get_mut(needle as usize)?.push(place);
        }
        let search = AhoCorasick::new(&needles).ok()?;
        Some(Pieces { search, needed_by, always })
    }

    /// Calls `each` once for every glob that may match.
    fn candidates(&self, name: &str, each: &mut impl FnMut(usize)) {
        let mut found: SmallVec<[u32; 16]> = self.always.iter().copied().collect();
        for piece in self.search.find_overlapping_iter(name) {
            let globs = self.needed_by.get(piece.pattern().as_usize());
            found.extend(globs.into_iter().flatten().copied());
        }
        // A piece may occur several times in a name.
        found.sort_unstable();
        found.dedup();
        found.iter().for_each(|place| each(*place as usize));
    }
}

#[cfg(test)]
mod tests {
    use sluice_classify::Category;

    use super::{Pattern, PatternIndex};

    fn check(patterns: &[&str], name: &str, category: Option<Category>, expected: &[u32]) {
        let patterns: Vec<_> = patterns.iter().filter_map(|text| Pattern::parse(text)).collect();
        let found = PatternIndex::new(&patterns).matches(name, category);
        assert_eq!(found.as_slice(), expected, "{name}");
    }

    #[test]
    fn few_and_many_globs_have_the_same_matches() {
        let few = ["get_user", "get_*", "*", "@read"];
        check(&few, "get_user", Some(Category::Read), &[0, 1, 2, 3]);
        check(&few, "get_user", None, &[0, 1, 2]);
        check(&few, "x", Some(Category::Write), &[2]);
        let many = ["get_*", "*get*get*", "**", "a*", "b*", "c*", "d*", "*_x", "*et_*", "get_*"];
        check(&many, "get_get", None, &[0, 1, 2, 8, 9]);
        check(&many, "a_x", None, &[2, 3, 7]);
        check(&many, "", None, &[2]);
    }
}
