//! How long judging and loading take, and what they allocate.
//!
//! `typical` is a policy of 23 tools whose called tool has three conditions and
//! two limits; `large` has 5,000 entries, most of them globs, and categories.

use std::fmt::Write as _;

use divan::{AllocProfiler, Bencher, black_box};
use sluice_policy::{
    Allow, Amount, Call, Decision, Facts, Format, Policy, Timestamp, ToolFacts, judge, load,
};
use sluice_wire::json::{Bounds, Document};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// The rule of the tool that is called, in every policy here.
const TRANSFER: &str = r#"{
    "require": [{ "conditions": [
        { "path": "args.amount", "op": "lte", "value": 10000 },
        { "path": "args.currency", "op": "in", "value": ["EUR", "USD"] } ] }],
    "deny_if": [{ "conditions": [{ "path": "args.to", "op": "starts_with", "value": "test_" }] }],
    "limits": [
        { "counter": "transfers", "window": "minute", "max": 10 },
        { "counter": "money", "window": "day", "max": 50000, "increment_from": "args.amount" } ] }"#;

const CALL: &str =
    r#"{ "amount": 125.50, "currency": "EUR", "to": "acct_1042", "memo": "invoice 7" }"#;

fn typical() -> String {
    let mut tools = format!(r#""transfer": {TRANSFER}"#);
    for number in 1..23 {
        let _ = write!(tools, r#", "tool_{number}": {{ "rate_limit": "30/minute" }}"#);
    }
    format!(r#"{{ "version": "1", "default": "deny", "tools": {{ {tools} }} }}"#)
}

fn large() -> String {
    let mut tools =
        format!(r#""transfer": {TRANSFER}, "@read": {{}}, "@destructive": {{ "action": "deny" }}"#);
    for number in 0..2_000 {
        let _ = write!(tools, r#", "tool_{number}": {{}}"#);
    }
    for number in 0..2_997 {
        let glob = match number % 3 {
            0 => format!("service{number}_*"),
            1 => format!("*_thing{number}"),
            _ => format!("get_*_of{number}_*"),
        };
        let _ = write!(tools, r#", "{glob}": {{ "rate_limit": "30/minute" }}"#);
    }
    format!(r#"{{ "version": "1", "default": "deny", "tools": {{ {tools} }} }}"#)
}

fn policy(text: &str) -> Policy {
    load(text.as_bytes(), Format::Json).expect("the benchmark's policies load")
}

fn tool(name: &str) -> ToolFacts {
    let definition = Document::parse(format!(r#"{{ "name": "{name}" }}"#), &Bounds::default());
    let definition = definition.expect("the benchmark's definition is JSON");
    ToolFacts::from_definition(definition.root()).expect("the definition has a name")
}

fn judged<'p>(policy: &'p Policy, call: &Call<'_>, tool: &ToolFacts) -> Allow<'p> {
    let at = Timestamp::from_millis(1_700_000_000_000);
    let decision = judge(black_box(Some(policy)), black_box(call), Facts::Known(tool), at);
    let Decision::Allow(allow) = decision else { unreachable!("the benchmark's call is allowed") };
    allow.admit(|_| Amount::ONE, |_| Amount::ZERO).expect("the charges fit");
    allow
}

#[divan::bench(args = ["typical", "large", "large, by glob"], sample_count = 1000)]
fn judge_allowed_call(bencher: Bencher<'_, '_>, size: &str) {
    let policy = policy(&if size == "typical" { typical() } else { large() });
    let name = if size == "large, by glob" { "get_the_price_of1499_today" } else { "transfer" };
    let arguments = Document::parse(CALL, &Bounds::default()).expect("the call is JSON");
    let call = Call::new(name, Some(arguments.root())).expect("the call has an object");
    let tool = tool(name);
    bencher.bench_local(|| judged(&policy, &call, &tool));
}

#[divan::bench(args = ["typical", "large"], sample_count = 20)]
fn load_policy(bencher: Bencher<'_, '_>, size: &str) {
    let text = if size == "large" { large() } else { typical() };
    bencher.bench_local(|| policy(black_box(&text)));
}
