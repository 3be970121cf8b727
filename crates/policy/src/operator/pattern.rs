//! `regex`: linear-time search, with a limit on the memory of all patterns together, and on the
//! steps that searching for one call may take.

use regex_automata::{
    meta::{BuildError, Config, Regex},
    util::syntax,
};
use regex_syntax::hir::{Hir, HirKind};

use super::search_cost;

/// The longest source of a pattern, in bytes.
pub(crate) const LONGEST_SOURCE: usize = 4 << 10;
/// The maximum size of all compiled patterns of a policy, in bytes.
pub(crate) const MOST_COMPILED: usize = 10 << 20;

/// The most steps that the regexes of one rule may take for a text of 1 MiB, and the most that
/// those of all rules for patterns and categories may take together: 512 places in an unanchored
/// regex. A call is judged by one rule for its exact name and by all others that match it, so it
/// takes at most twice as many; a step takes about ten nanoseconds at worst.
pub(crate) const MOST_STEPS: u64 = 512 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub struct TextPattern(Search);

#[derive(Debug)]
enum Search {
    /// Plain text, which the standard library finds in linear time however it repeats itself.
    Literal(Box<str>),
    Regex(Regex),
}

/// Why a pattern was not compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextPatternError {
    #[error("regex source is longer than 4 KiB")]
    LongSource,
    #[error("compiled regexes of this policy take more than 10 MiB in all")]
    TooLarge,
    #[error(
        "`regex` could take {} million steps to search 1 MiB of text: the regexes of one rule, \
         and those of all patterns and categories, may take {} million together",
        .0 >> 20,
        MOST_STEPS >> 20
    )]
    TooSlow(u64),
    #[error("regex does not compile: {0}")]
    Syntax(String),
    #[error(
        "regex does not compile: look-around and back-references are not supported, \
         because they cannot be searched in linear time"
    )]
    NotLinear,
}

/// The memory and the steps that are left for the patterns of one policy.
#[derive(Debug)]
pub struct PatternBudget {
    left: usize,
    /// The steps of rules that apply to several tools, which may all apply to one call.
    shared: u64,
    /// The steps of the rule that is being compiled, if it applies to one tool.
    own: u64,
    most_own: u64,
    is_shared: bool,
}

impl Default for PatternBudget {
    fn default() -> PatternBudget {
        PatternBudget { left: MOST_COMPILED, shared: 0, own: 0, most_own: 0, is_shared: true }
    }
}

impl PatternBudget {
    /// The patterns that follow are those of another rule; it is shared if it may apply to
    /// several tools.
    pub(crate) fn begin_rule(&mut self, is_shared: bool) {
        self.own = 0;
        self.is_shared = is_shared;
    }

    /// The steps for each byte of a text that all regexes of one call may take together.
    pub(crate) fn steps_per_byte(&self) -> u64 {
        search_cost::per_byte(self.shared.saturating_add(self.most_own))
    }

    /// Adds the steps of a search.
    fn add_steps(&mut self, regex: &Hir) -> Result<(), TextPatternError> {
        let steps = search_cost::most_steps(regex);
        let sum = if self.is_shared { &mut self.shared } else { &mut self.own };
        let more = sum.saturating_add(steps);
        if more > MOST_STEPS {
            return Err(TextPatternError::TooSlow(more));
        }
        *sum = more;
        self.most_own = self.most_own.max(self.own);
        Ok(())
    }

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

    /// Compiles `source`, and deducts its size and its steps.
    pub fn compile(&mut self, source: &str) -> Result<TextPattern, TextPatternError> {
        if source.len() > LONGEST_SOURCE {
            return Err(TextPatternError::LongSource);
        }
        if self.left == 0 {
            return Err(TextPatternError::TooLarge);
        }
        let parsed = syntax::parse(source).map_err(|error| explain_syntax(&error))?;
        if let Some(literal) = literal(&parsed) {
            self.spend(literal.len())?;
            return Ok(TextPattern(Search::Literal(literal.into())));
        }
        self.add_steps(&parsed)?;
        let config = Config::new().nfa_size_limit(Some(self.left));
        let built = Regex::builder().configure(config).build_from_hir(&parsed);
        let built = built.map_err(|error| explain(&error));
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
        Ok(TextPattern(Search::Regex(regex)))
    }
}

/// The text that a regex stands for, if it is nothing but text.
fn literal(regex: &Hir) -> Option<&str> {
    match regex.kind() {
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0).ok(),
        _ => None,
    }
}

fn explain(error: &BuildError) -> TextPatternError {
    if error.size_limit().is_some() {
        return TextPatternError::TooLarge;
    }
    match error.syntax_error() {
        Some(syntax) => explain_syntax(syntax),
        None => TextPatternError::Syntax(error.to_string()),
    }
}

fn explain_syntax(error: &regex_syntax::Error) -> TextPatternError {
    let text = error.to_string();
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
        match &self.0 {
            Search::Literal(literal) => text.contains(&**literal),
            Search::Regex(regex) => regex.is_match(text),
        }
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
        let mut many = std::iter::repeat_with(|| budget.compile(r"^\w{200}")).take(1000);
        assert_eq!(many.find_map(Result::err), Some(TextPatternError::TooLarge));
        let long = "a".repeat(5000);
        let error = PatternBudget::default().compile(&long).unwrap_err();
        assert_eq!(error, TextPatternError::LongSource);
    }

    /// Text that overlaps itself, which a machine would follow at every place.
    #[test]
    fn plain_text_costs_nothing() {
        let mut budget = PatternBudget::default();
        let text = "a".repeat(4096);
        assert!(budget.compile(&text).unwrap().occurs_in(&format!("b{text}b")));
        assert!(!budget.compile(&text).unwrap().occurs_in(&"a".repeat(4095)));
        assert!(budget.compile(r"a\.b").unwrap().occurs_in("xa.b"));
        assert!(budget.compile("").unwrap().occurs_in(""));
        assert_eq!(budget.steps_per_byte(), 1);
    }

    #[test]
    fn the_steps_of_one_rule_are_limited_together() {
        let mut budget = PatternBudget::default();
        let error = budget.compile("(?s)a.{5000}z").unwrap_err();
        assert_eq!(error, TextPatternError::TooSlow(5002 << 20));
        assert!(error.to_string().starts_with("`regex` could take 5002 million steps"), "{error}");
        // Rules for one tool each have all steps, those for several tools share them.
        for (is_shared, expected) in [(false, [true, false, true]), (true, [true, false, false])] {
            budget.begin_rule(is_shared);
            let mut fits = vec![];
            for source in ["(?s)a.{300}z", "(?s)b.{300}y"] {
                fits.push(budget.compile(source).is_ok());
            }
            budget.begin_rule(is_shared);
            fits.push(budget.compile("(?s)b.{300}y").is_ok());
            assert_eq!(fits, expected);
        }
        // The regexes of one call: those of the largest rule, and those that are shared.
        assert_eq!(budget.steps_per_byte(), 2 * 302);
    }
}
