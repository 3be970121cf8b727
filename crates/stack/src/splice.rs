//! Applies edits to a text and leaves every other byte unchanged.

use std::ops::Range;

/// A replacement of some bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) at: Range<usize>,
    pub(crate) put: String,
}

impl Edit {
    pub(crate) fn new(at: Range<usize>, put: impl Into<String>) -> Edit {
        Edit { at, put: put.into() }
    }

    pub(crate) fn insert(at: usize, put: impl Into<String>) -> Edit {
        Edit { at: at..at, put: put.into() }
    }
}

/// The text with all edits applied; `None` if two of them overlap, or one lies outside of the text.
pub(crate) fn splice(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    let mut spliced = String::with_capacity(text.len() + 256);
    let mut done = 0;
    for edit in edits {
        spliced.push_str(text.get(done..edit.at.start)?);
        spliced.push_str(&edit.put);
        done = edit.at.end;
    }
    spliced.push_str(text.get(done..)?);
    Some(spliced)
}

#[cfg(test)]
mod tests {
    use super::{Edit, splice};

    #[test]
    fn edits_change_no_other_bytes() {
        let edits = vec![Edit::new(4..5, "X"), Edit::insert(0, "<"), Edit::insert(6, ">")];
        assert_eq!(splice("abcdef", edits).unwrap(), "<abcdXf>");
        assert_eq!(splice("abc", vec![Edit::new(0..2, ""), Edit::new(1..3, "")]), None);
        assert_eq!(splice("abc", vec![Edit::insert(9, "")]), None);
    }
}
