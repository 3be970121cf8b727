//! The bound holds for the machine that the regexes are compiled to: a plain simulation of it,
//! which counts its steps.

use std::collections::BTreeSet;

use regex_automata::{
    nfa::thompson::{self, NFA, State, WhichCaptures},
    util::{look::LookMatcher, primitives::StateID, syntax},
};

use super::{most_steps, per_byte};

/// The states of the machine that one place may take.
const STATES_OF_PLACE: u64 = 4;

fn steps(source: &str) -> u64 {
    most_steps(&syntax::parse(source).unwrap())
}

/// The most states that the machine is in after any byte of a text, and all steps it takes.
fn simulate(source: &str, text: &[u8]) -> (u64, u64) {
    let config = thompson::Config::new().which_captures(WhichCaptures::None);
    let machine = thompson::Compiler::new().configure(config).build(source).unwrap();
    let is_anchored = machine.is_always_start_anchored();
    let (mut most, mut all) = (0, 0);
    let mut reached = BTreeSet::new();
    for at in 0..text.len() {
        if at == 0 || !is_anchored {
            reached.insert(machine.start_anchored());
        }
        let mut closed = BTreeSet::new();
        for state in &reached {
            close(&machine, *state, text, at, &mut closed);
        }
        let count = u64::try_from(closed.len()).unwrap();
        (most, all) = (most.max(count), all + count);
        let next = closed.iter().filter_map(|state| read(machine.state(*state), text[at]));
        reached = next.collect();
    }
    (most, all)
}

/// Adds all states that are reached without reading anything.
fn close(machine: &NFA, from: StateID, text: &[u8], at: usize, all: &mut BTreeSet<StateID>) {
    let mut waiting = vec![from];
    while let Some(state) = waiting.pop() {
        if !all.insert(state) {
            continue;
        }
        match machine.state(state) {
            State::Look { look, next } if LookMatcher::new().matches(*look, text, at) => {
                waiting.push(*next);
            }
            State::Union { alternates } => waiting.extend(alternates),
            State::BinaryUnion { alt1, alt2 } => waiting.extend([*alt1, *alt2]),
            State::Capture { next, .. } => waiting.push(*next),
            _ => {}
        }
    }
}

fn read(state: &State, byte: u8) -> Option<StateID> {
    match state {
        State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
        State::Sparse(sparse) => sparse.matches_byte(byte),
        State::Dense(dense) => dense.matches_byte(byte),
        _ => None,
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn an_unanchored_regex_takes_a_step_for_each_place() {
    for (source, places) in [
        ("(?i)abc", 3),
        (r"\bdrop\b", 3),
        (r"\b(drop|delete|truncate)\b", 6),
        (r"\baaaa\b", 6),
        (r"\babab\b", 4),
        (r"\baabaab\b", 5),
        ("a|bc|[de]", 3),
        ("(?s)a.{5000}z", 5002),
        ("[ab]*a[ab]{200,}", 202),
        ("(a{10}b){10}", 110),
        ("a+b*c?", 3),
        ("(?m)^abc", 2),
    ] {
        assert_eq!(steps(source), places * MIB, "{source}");
    }
    assert_eq!(steps("((a{1000}){1000}){1000}"), 1_000_000_000 * MIB);
}

#[test]
fn an_anchored_regex_is_at_one_place_until_its_length_varies() {
    for (source, steps_taken) in [
        ("^[a-z]{1,64}$", 64 * 2),
        ("^abc$", 3),
        (r"^https://api\.example\.com/.*$", 2 * MIB),
        ("^(get|list)_.*", 4 * MIB),
        ("(?s)^.{5000}z", 20_001),
        ("^.*a.{5000}z", 5003 * MIB),
    ] {
        assert_eq!(steps(source), steps_taken, "{source}");
    }
}

/// Only the text of the regex counts.
#[test]
fn steps_for_a_byte_are_those_for_a_mebibyte() {
    assert_eq!(per_byte(steps("(?i)abc")), 3);
    assert_eq!(per_byte(steps("^abc$")), 1);
}

/// The bound holds for texts that are made to reach every place.
#[test]
fn no_text_takes_more_steps_than_the_bound() {
    let texts = ["a".repeat(700), "ab".repeat(350), "é".repeat(350), "aab é-_b/".repeat(80)];
    for source in [
        "(?s)a.{300}z",
        "[ab]*a[ab]{200}c",
        r"\b(drop|delete|truncate)\b",
        r"(aabaab|abab|aaaa|aabaaab)\b",
        r"(?i)(password|secret|api[_-]?key)\s*[:=]\s*\S{8,64}",
        r"^[\w.+-]{1,64}@example\.com$",
        r"^\w{1,255}$",
        "^(a|ab|aba){1,200}$",
        "^(é|a)*b?a{100}$",
        r"(\w+\s?){1,50}x",
        "^.*a.{300}z",
        "^a?b?(a|b)*a.{100}$",
        r"(?:^|/)a{1,40}/",
        r"\p{L}{20}",
        "^(?:(?:ab){1,10}a){1,10}z",
        "",
        "^$",
        "(|a|)*b",
    ] {
        let bound = steps(source);
        for text in &texts {
            let (most, all) = simulate(source, text.as_bytes());
            let length = u64::try_from(text.len()).unwrap();
            let allowed = STATES_OF_PLACE * (per_byte(bound) * length + length);
            assert!(all <= allowed, "{source}: {all} steps of {allowed}");
            if per_byte(bound) > 1 {
                let allowed = STATES_OF_PLACE * per_byte(bound);
                assert!(most <= allowed, "{source}: {most} states of {allowed}");
            }
        }
    }
}
