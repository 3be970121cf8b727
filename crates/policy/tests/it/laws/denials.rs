//! Denials only ever take away, and what is hidden stays hidden.

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use sluice_policy::shows;

use super::{World, hold, loaded, said};
use crate::generate::{
    call::attempts,
    policy::{condition, policy},
    pool,
};

/// One more denial.
#[derive(Debug, Clone)]
enum Denial {
    /// In an entry that is there already: a new one would also list its tools.
    DenyIf(Value),
    Hide(&'static str),
    /// A new entry that denies every call.
    Entry(&'static str),
}

fn denial() -> impl Strategy<Value = Denial> {
    let pattern =
        || prop_oneof![select(pool::NAMES), select(pool::GLOBS), select(pool::CATEGORIES)];
    prop_oneof![
        condition().prop_map(|condition| Denial::DenyIf(json!({ "conditions": [condition] }))),
        Just(Denial::DenyIf(json!({ "conditions": [] }))),
        pattern().prop_map(Denial::Hide),
        pattern().prop_map(Denial::Entry),
    ]
}

impl Denial {
    /// Adds the denial; `number` chooses the entry it goes into.
    fn add_to(self, policy: &mut Value, number: usize) {
        match self {
            Denial::DenyIf(predicate) => {
                if let Some(rule) = entry(policy, number) {
                    push(rule, "deny_if", predicate);
                }
            }
            Denial::Hide(pattern) => push(policy, "hide", json!(pattern)),
            Denial::Entry(pattern) => {
                let rule = &mut policy["tools"][pattern];
                if rule.is_null() {
                    *rule = json!({ "action": "deny" });
                }
            }
        }
    }
}

/// One of the rules, `all_tools` among them.
fn entry(policy: &mut Value, number: usize) -> Option<&mut Value> {
    let policy = policy.as_object_mut()?;
    let mut rules: Vec<&mut Value> = Vec::new();
    for (key, value) in policy.iter_mut() {
        match key.as_str() {
            "tools" => rules.extend(value.as_object_mut()?.values_mut()),
            "all_tools" => rules.push(value),
            _ => {}
        }
    }
    let place = number.checked_rem(rules.len())?;
    Some(rules.swap_remove(place))
}

fn push(object: &mut Value, key: &str, item: Value) {
    let list = &mut object[key];
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().unwrap().push(item);
}

/// How little an outcome lets through.
fn strictness(outcome: &str) -> u8 {
    match outcome {
        "allow" => 0,
        "hold" => 1,
        _ => 2,
    }
}

#[test]
fn one_more_denial_lets_nothing_more_through() {
    let world = World::new();
    let inputs = (policy(), denial(), any::<usize>(), attempts(20));
    hold(600, inputs, |(text, denial, number, attempts)| {
        let mut stricter = text.clone();
        denial.add_to(&mut stricter, number);
        let (Some(policy), Some(stricter_policy)) = (loaded(&text), loaded(&stricter)) else {
            return Ok(());
        };
        for attempt in &attempts {
            let facts = world.facts(attempt);
            let before = said(&policy, attempt, facts).verdict;
            let after = said(&stricter_policy, attempt, facts).verdict;
            let fine = strictness(after.outcome) >= strictness(before.outcome);
            prop_assert!(fine, "{:?} became {:?} under {}", before, after, stricter);
            let shown = shows(Some(&policy), attempt.tool, facts);
            let still = shows(Some(&stricter_policy), attempt.tool, facts);
            // A new entry does list its tools, which are then shown and denied.
            prop_assert!(shown || !still || text["tools"] != stricter["tools"]);
        }
        Ok(())
    });
}

#[test]
fn hidden_tools_are_never_listed_and_never_allowed() {
    let world = World::new();
    hold(400, (policy(), attempts(20)), |(text, attempts)| {
        let Some(policy) = loaded(&text) else { return Ok(()) };
        for attempt in &attempts {
            let facts = world.facts(attempt);
            let verdict = said(&policy, attempt, facts).verdict;
            let shown = shows(Some(&policy), attempt.tool, facts);
            prop_assert!(shown || strictness(verdict.outcome) == 2, "{:?} is not shown", verdict);
            prop_assert!(!shown || verdict.outcome != "hide", "{:?} is shown", verdict);
        }
        Ok(())
    });
}

#[test]
fn shadow_mode_decides_like_enforcement_and_lists_no_less() {
    let world = World::new();
    hold(400, (policy(), attempts(20)), |(mut text, attempts)| {
        text["mode"] = json!("enforce");
        let enforced = loaded(&text);
        text["mode"] = json!("shadow");
        let (Some(enforced), Some(shadow)) = (enforced, loaded(&text)) else { return Ok(()) };
        for attempt in &attempts {
            let facts = world.facts(attempt);
            prop_assert_eq!(said(&enforced, attempt, facts), said(&shadow, attempt, facts));
            let shown = |policy| shows(Some(policy), attempt.tool, facts);
            prop_assert!(shown(&shadow) || !shown(&enforced));
        }
        Ok(())
    });
}

#[test]
fn the_same_input_has_the_same_answer() {
    let world = World::new();
    hold(200, (policy(), attempts(20)), |(text, attempts)| {
        let (Some(policy), Some(again)) = (loaded(&text), loaded(&text)) else { return Ok(()) };
        for attempt in &attempts {
            let facts = world.facts(attempt);
            let first = said(&policy, attempt, facts);
            prop_assert_eq!(&first, &said(&policy, attempt, facts));
            prop_assert_eq!(&first, &said(&again, attempt, facts));
        }
        Ok(())
    });
}
