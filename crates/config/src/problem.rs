//! Errors in a configuration, file by file, and the secrets that are masked when an error is
//! shown in its context.

use std::ops::Range;

use sluice_policy::Problem;

use crate::Source;

/// All problems in one file.
#[derive(Debug)]
pub struct FileProblems {
    /// The file's text for display, with secrets masked.
    pub source: Source,
    pub problems: Vec<Problem>,
}

/// Collects problems, and the positions of secrets.
#[derive(Default)]
pub(super) struct Findings {
    found: Vec<(Range<usize>, String, Option<String>)>,
    hidden: Vec<Range<usize>>,
    /// Problems in other files that the configuration names.
    others: Vec<FileProblems>,
}

impl Findings {
    pub(super) fn add(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.found.push((span, message.into(), None));
    }

    pub(super) fn add_with_hint(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.found.push((span, message.into(), Some(hint.into())));
    }

    /// Masks a part of the file.
    pub(super) fn hide(&mut self, span: Range<usize>) {
        self.hidden.push(span);
    }

    /// Adds the problems of another file, only once if it is named twice.
    pub(super) fn add_file(&mut self, file: FileProblems) {
        if self.others.iter().all(|known| known.source.name != file.source.name) {
            self.others.push(file);
        }
    }

    /// Forgets the problems, but still masks the secrets.
    pub(super) fn forget_problems(&mut self) {
        self.found.clear();
        self.others.clear();
    }

    /// The number of problems in the file itself so far.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.others.is_empty()
    }

    /// The problems of `source` by position, then those of other files.
    pub(super) fn into_files(mut self, source: Source) -> Vec<FileProblems> {
        self.found.sort_by_key(|(span, ..)| span.start);
        let problems: Vec<_> = self
            .found
            .into_iter()
            .map(|(span, message, hint)| {
                let place = Problem::at(&source.text, span.start, message);
                Problem { hint, bytes: span, ..place }
            })
            .collect();
        let source = Source { text: mask_spans(source.text, &self.hidden), ..source };
        let own = (!problems.is_empty()).then_some(FileProblems { source, problems });
        own.into_iter().chain(self.others).collect()
    }
}

/// Replaces secrets in the text by asterisks; line breaks stay.
fn mask_spans(mut text: Vec<u8>, hidden: &[Range<usize>]) -> Vec<u8> {
    for span in hidden {
        let part = text.get_mut(span.clone()).unwrap_or_default();
        part.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b'*');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Findings;
    use crate::Source;

    #[test]
    fn problems_are_sorted_and_secrets_are_masked() {
        let mut findings = Findings::default();
        findings.add(9..14, "second");
        findings.add_with_hint(0..1, "first", "do it");
        findings.hide(4..8);
        let source = Source { name: "a.toml".into(), text: b"a = \"xy\"\ntoken".to_vec() };
        let files = findings.into_files(source);
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].source.text, b"a = ****\ntoken");
        let places: Vec<_> =
            files[0].problems.iter().map(|one| (one.line, one.column, &*one.message)).collect();
        assert_eq!(places, [(1, 1, "first"), (2, 1, "second")]);
        assert_eq!(files[0].problems[0].hint.as_deref(), Some("do it"));
    }
}
