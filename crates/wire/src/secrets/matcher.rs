//! An automaton that finds all forms of all secrets in one pass (Aho-Corasick), and that
//! can be stopped between any two bytes.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use aho_corasick::{
    Anchored, Span,
    automaton::{Automaton as _, Candidate, StateID},
    nfa::contiguous::NFA,
};

/// See the module. Letters match in either case: the digits of percent-encoded and escaped
/// characters are written both ways.
pub(super) struct Matcher {
    automaton: NFA,
    start: StateID,
    /// How many bytes of a form have been read in each state.
    depths: HashMap<StateID, usize>,
    longest: usize,
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Matcher(…)")
    }
}

/// An occurrence: how many bytes it has up to here, and whether it could be a part of a
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) length: usize,
    pub(super) is_number: bool,
}

impl Matcher {
    /// An automaton for these forms; `None` if there are none.
    pub(super) fn new(forms: &BTreeSet<Vec<u8>>) -> Option<Matcher> {
        if forms.is_empty() {
            return None;
        }
        let automaton = NFA::builder().ascii_case_insensitive(true).build(forms).ok()?;
        let start = automaton.start_state(Anchored::No).ok()?;
        let mut depths = HashMap::from([(start, 0)]);
        for form in forms {
            let mut state = start;
            for (read, byte) in form.iter().enumerate() {
                state = automaton.next_state(Anchored::No, state, *byte);
                depths.insert(state, read + 1);
            }
        }
        let longest = automaton.max_pattern_len();
        Some(Matcher { automaton, start, depths, longest })
    }

    pub(super) fn start(&self) -> StateID {
        self.start
    }

    pub(super) fn next(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    /// How many of the last bytes may be the beginning of a secret.
    pub(super) fn depth(&self, state: StateID) -> usize {
        self.depths.get(&state).copied().unwrap_or(self.longest)
    }

    /// The longest secret that ends in this state.
    pub(super) fn find_end(&self, state: StateID, last: &[u8]) -> Option<Found> {
        if !self.automaton.is_match(state) {
            return None;
        }
        let ends = 0..self.automaton.match_len(state);
        let lengths =
            ends.map(|n| self.automaton.pattern_len(self.automaton.match_pattern(state, n)));
        let length = lengths.max()?;
        let is_numeric = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let is_number = last.iter().rev().take(length).all(is_numeric);
        Some(Found { length, is_number })
    }

    /// The first place from `at` on where a secret may begin, when none is under way. It is
    /// faster than reading byte by byte.
    pub(super) fn skip(&self, text: &[u8], at: usize) -> usize {
        let Some(prefilter) = self.automaton.prefilter() else { return at };
        // What begins in the last bytes may continue after them.
        let last = text.len().saturating_sub(self.longest).max(at);
        match prefilter.find_in(text, Span::from(at..text.len())) {
            Candidate::None => last,
            Candidate::Match(found) => found.start().min(last),
            Candidate::PossibleStartOfMatch(start) => start.min(last),
        }
    }
}
