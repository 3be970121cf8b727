//! A limit of N admits exactly N, for every counter and every scope.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use sluice_policy::{Amount, Call, Decision, Facts, Limit, Policy, Timestamp, judge};
use sluice_wire::json::Document;

use super::{amount, document, hold, loaded};
use crate::generate::pool;

/// Counters as a store keeps them.
#[derive(Default)]
struct Counters(HashMap<(String, Timestamp), Amount>);

impl Counters {
    /// Makes one call, and says whether it was admitted.
    fn call(&mut self, policy: &Policy, tool: &str, args: &Document, at: Timestamp) -> bool {
        let call = Call::new(tool, Some(args.root())).unwrap();
        let Decision::Allow(allow) = judge(Some(policy), &call, Facts::NoList, at) else {
            panic!("only a limit may deny here");
        };
        let key = |limit: &Limit| (limit.counter().to_owned(), limit.window().start(at));
        let reading = |limit: &Limit| self.0.get(&key(limit)).copied().unwrap_or_default();
        let admitted = allow.admit(reading, |_| Amount::ZERO).is_ok();
        for charge in allow.charges().filter(|_| admitted) {
            let counter = self.0.entry(key(charge.limit)).or_default();
            *counter = counter.checked_add(charge.amount).unwrap();
        }
        admitted
    }
}

/// `times` times this amount, as a bound is written.
fn bound(step: Amount, times: u32) -> Value {
    let sum = (0..times).fold(Amount::ZERO, |sum, _| sum.checked_add(step).unwrap());
    pool::number(&sum.to_string())
}

const STEPS: &[&str] = &["1", "0.1", "2.5", "1e-18", "0.3e1", "1e20", "0.333333333333333333"];

/// Windows as they are written, with their seconds.
const WINDOWS: &[(&str, i64)] = &[
    ("\"minute\"", 60),
    ("\"hour\"", 3_600),
    ("\"day\"", 86_400),
    ("1", 1),
    ("7", 7),
    ("2678400", 2_678_400),
];

#[test]
fn a_limit_of_n_admits_exactly_n_in_each_window() {
    let inputs =
        (0_u32..20, select(WINDOWS), select(STEPS), 0_i64..2_000_000_000_000, any::<bool>());
    hold(400, inputs, |(most, (window, seconds), step, millis, counts_calls)| {
        let mut limit = json!({ "counter": "c", "window": pool::parse(window) });
        if counts_calls {
            limit["max"] = json!(most);
        } else {
            limit["max"] = bound(amount(step), most);
            limit["increment_from"] = json!("args.n");
        }
        let text =
            json!({ "version": "1", "default": "deny", "tools": { "t": { "limits": [limit] } } });
        let policy = loaded(&text).unwrap();
        let args = document(&format!(r#"{{"n":{step}}}"#));
        let mut counters = Counters::default();
        let start = millis.div_euclid(seconds * 1000) * seconds * 1000;
        let next = start + seconds * 1000;
        let mut admitted = [0, 0];
        for at in [start, next - 1, next] {
            for _ in 0..most + 2 {
                let passes = counters.call(&policy, "t", &args, Timestamp::from_millis(at));
                admitted[usize::from(at >= next)] += u32::from(passes);
            }
        }
        prop_assert_eq!(admitted, [most, most], "under {}", text);
        Ok(())
    });
}

#[test]
fn sharers_of_a_counter_each_keep_to_their_own_bound() {
    let tools = vec(select(&["a", "b", "ab"][..]), 30);
    let inputs = (0_u32..12, 0_u32..12, select(STEPS), tools);
    hold(400, inputs, |(most_a, most_b, step, calls)| {
        let limit = |times| {
            let max = bound(amount(step), times);
            json!({ "limits": [{ "counter": "c", "window": "day", "max": max,
                "scope": "principal", "increment_from": "args.n" }] })
        };
        let (a, b) = (limit(most_a), limit(most_b));
        let tools = json!({ "a*": a, "*b": b });
        let text = json!({ "version": "1", "default": "deny", "tools": tools });
        let policy = loaded(&text).unwrap();
        let args = document(&format!(r#"{{"n":{step}}}"#));
        let mut counters = Counters::default();
        let mut total = 0;
        for tool in calls {
            let most = match tool {
                "a" => most_a,
                "b" => most_b,
                _ => most_a.min(most_b),
            };
            let passes = counters.call(&policy, tool, &args, Timestamp::from_millis(0));
            prop_assert_eq!(passes, total < most, "call of {} after {}", tool, total);
            total += u32::from(passes);
        }
        Ok(())
    });
}

#[test]
fn limits_are_charged_all_or_none() {
    let inputs = (0_u32..8, 0_u32..8, vec(select(&["1", "0", "3"][..]), 12));
    hold(300, inputs, |(calls_most, sum_most, amounts)| {
        let limits = json!([
            { "counter": "calls", "window": "day", "max": calls_most },
            { "counter": "sum", "window": "day", "max": sum_most, "increment_from": "args.n" },
        ]);
        let tools = json!({ "t": { "limits": limits } });
        let policy = loaded(&json!({ "version": "1", "default": "deny", "tools": tools })).unwrap();
        let mut counters = Counters::default();
        let (mut calls, mut sum) = (0, 0);
        for text in amounts {
            let args = document(&format!(r#"{{"n":{text}}}"#));
            let add: u32 = text.parse().unwrap();
            let fits = calls < calls_most && sum + add <= sum_most;
            let passes = counters.call(&policy, "t", &args, Timestamp::from_millis(0));
            prop_assert_eq!(passes, fits);
            if fits {
                calls += 1;
                sum += add;
            }
        }
        Ok(())
    });
}
