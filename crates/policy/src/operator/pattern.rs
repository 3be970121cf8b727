//! `regex`: linear-time search, with a limit on the memory of all patterns together.

use regex_automata::meta::{BuildError, Config, Regex};

/// The longest source of a pattern, in bytes.
pub(crate) const LONGEST_SOURCE: usize = 4 << 10;
/// The maximum size of all compiled patterns of a policy, in bytes.
pub(crate) const MOST_COMPILED: usize = 10 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub struct TextPattern(Regex);

/// Why a pattern was not compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextPatternError {
    #[error("regex source is longer than 4 KiB")]
    LongSource,
    #[error("compiled regexes of this policy take more than 10 MiB in all")]
    TooLarge,
    #[error("regex does not compile: {0}")]
    Syntax(String),
    #[error(
        "regex does not compile: look-around and back-references are not supported, \
         because they cannot be searched in linear time"
    )]
    NotLinear,
}

/// The memory that is left for the patterns of one policy.
#[derive(Debug)]
pub struct PatternBudget {
    left: usize,
}

impl Default for PatternBudget {
    fn default() -> PatternBudget {
        PatternBudget { left: MOST_COMPILED }
    }
}

impl PatternBudget {
    /// Whether the budget is exhausted, which was reported.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Deducts the size of patterns that were compiled elsewhere.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), TextPatternError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or_default();
        left.map(|_| ()).ok_or(TextPatternError::TooLarge)
    }

    /// Compiles `source` and deducts its size.
    pub fn compile(&mut self, source: &str) -> Result<TextPattern, TextPatternError> {
        if source.len() > LONGEST_SOURCE {
            return Err(TextPatternError::LongSource);
        }
        if self.left == 0 {
            return Err(TextPatternError::TooLarge);
        }
        let config = Config::new().nfa_size_limit(Some(self.left));
        let built = Regex::builder().configure(config).build(source).map_err(|e| explain(&e));
        let fits = built.and_then(|regex| {
            let left = self.left.checked_sub(regex.memory_usage());
            left.map(|left| (regex, left)).ok_or(TextPatternError::TooLarge)
        });
        // Once over budget, nothing more is compiled: the attempt takes the longest.
        if matches!(fits, Err(TextPatternError::TooLarge)) {
            self.left = 0;
        }
        let (regex, left) = fits?;
        self.left = left;
        Ok(TextPattern(regex))
    }
}

fn explain(error: &BuildError) -> TextPatternError {
    if error.size_limit().is_some() {
        return TextPatternError::TooLarge;
    }
    let Some(syntax) = error.syntax_error() else {
        return TextPatternError::Syntax(error.to_string());
    };
    let text = syntax.to_string();
    // The syntax error draws the pattern with a caret; its last line says what is wrong.
    let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    if last.contains("look-around") || last.contains("backreference") {
        TextPatternError::NotLinear
    } else {
        TextPatternError::Syntax(last.to_owned())
    }
}

impl TextPattern {
    /// Whether the pattern matches anywhere in `text`.
    pub(crate) fn occurs_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::{PatternBudget, TextPatternError};

    #[test]
    fn a_dollar_matches_only_the_end_of_the_text() {
        let pattern = PatternBudget::default().compile("^ab$").unwrap();
        assert!(pattern.occurs_in("ab"));
        assert!(!pattern.occurs_in("ab\n"));
        assert!(!pattern.occurs_in("xab"));
    }

    #[test]
    fn look_around_and_back_references_are_refused() {
        for source in ["(?=a)", "(?<!a)b", r"(a)\1"] {
            let error = PatternBudget::default().compile(source).unwrap_err();
            assert_eq!(error, TextPatternError::NotLinear, "{source}");
        }
        let error = PatternBudget::default().compile("a(b").unwrap_err();
        assert_eq!(error, TextPatternError::Syntax("unclosed group".into()));
    }

    #[test]
    fn the_memory_of_all_patterns_is_limited_together() {
        let mut budget = PatternBudget::default();
        let mut many = std::iter::repeat_with(|| budget.compile(r"\w{200}")).take(1000);
        assert_eq!(many.find_map(Result::err), Some(TextPatternError::TooLarge));
        let long = "a".repeat(5000);
        let error = PatternBudget::default().compile(&long).unwrap_err();
        assert_eq!(error, TextPatternError::LongSource);
    }
}
