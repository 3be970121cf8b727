//! Judging an allowed call puts nothing on the heap.
//!
//! A binary of its own, because it replaces the allocator to count.

#![cfg(test)]

use sluice_policy::{Amount, Call, Decision, Facts, Format, Timestamp, ToolFacts, judge, load};
use sluice_wire::json::{Bounds, Document};

const POLICY: &str = r#"{ "version": "1", "default": "deny", "hide": ["drop_*", "@destructive"],
  "all_tools": { "limits": [{ "counter": "all", "window": "hour", "max": 1000, "scope": "principal" }] },
  "tools": {
    "pay": {
      "require": [{ "conditions": [
        { "path": "args.amount", "op": "lte", "value": 10000 },
        { "path": "args.currency", "op": "in", "value": ["EUR", "USD"] },
        { "path": "args.file", "op": "path_within", "value": ["/srv/invoices"] },
        { "path": "args.lines.*.price", "op": "gt", "value": 0 } ] }],
      "deny_if": [{ "conditions": [{ "path": "args.to", "op": "regex", "value": "^test_|\\.invalid$" }] }],
      "limits": [
        { "counter": "calls", "window": "minute", "max": 10 },
        { "counter": "money", "window": "day", "max": 50000, "increment_from": "args.amount" } ] },
    "p*": {}, "@write": { "approval": { "when": [{ "conditions": [{ "path": "args.amount", "op": "gt", "value": 500 }] }] } } } }"#;

const ARGUMENTS: &str = r#"{ "amount": 125.50, "currency": "EUR", "to": "acct_1042",
  "file": "/srv/invoices/2026/../2026/7.pdf", "lines": [{ "price": 100.25 }, { "price": 25.25 }] }"#;

#[test]
fn an_allowed_call_is_judged_without_allocating() {
    let policy = load(POLICY.as_bytes(), Format::Json).unwrap();
    let definition = Document::parse(r#"{ "name": "pay" }"#, &Bounds::default()).unwrap();
    let tool = ToolFacts::from_definition(definition.root()).unwrap();
    let arguments = Document::parse(ARGUMENTS, &Bounds::default()).unwrap();
    let call = Call::new("pay", Some(arguments.root())).unwrap();
    let judged =
        || match judge(Some(&policy), &call, Facts::Known(&tool), Timestamp::from_millis(0)) {
            Decision::Allow(allow) => {
                allow.admit(|_| Amount::ONE, |_| Amount::ZERO).is_ok()
                    && allow.charges().count() == 3
            }
            other => panic!("the call is allowed: {other:?}"),
        };
    // A regex fills its cache on first use, once per thread.
    assert!(judged());
    let mut allowed = false;
    let counted = allocation_counter::measure(|| allowed = judged());
    assert!(allowed);
    assert_eq!(counted.count_total, 0, "{counted:?}");
}
