//! The six tools as their callers see them.

use serde_json::Value as Json;
use sluice_builtin::{Builtin, ToolResult, UnknownTool};
use sluice_wire::json::{Bounds, Document};

use super::{Demo, POLICY};

const NAMES: [&str; 6] =
    ["list_notes", "add_note", "run_report", "delete_note", "pay_invoice", "ping_demo"];

/// The definition of a tool, and whether `value` fits the schema it has there.
fn fits(tool: &str, schema: &str, value: &str) -> bool {
    let tools: Json = serde_json::from_str(Demo::new().tools()).unwrap();
    let tool = tools.as_array().unwrap().iter().find(|other| other["name"] == tool).unwrap();
    jsonschema::is_valid(&tool[schema], &serde_json::from_str(value).unwrap())
}

/// Calls a tool. Whatever it answers fits the schema it promises.
fn call(demo: &Demo, tool: &str, arguments: &str) -> ToolResult {
    let document = Document::parse(arguments, &Bounds::default()).unwrap();
    let result = demo.run(tool, Some(document.root())).unwrap();
    if let Some(structured) = &result.structured {
        assert!(!structured.contains('\n'), "{tool} {arguments}");
        assert!(fits(tool, "outputSchema", structured), "{tool} {arguments}: {structured}");
    }
    assert_eq!(result.is_error, result.structured.is_none(), "{tool} {arguments}");
    result
}

fn check(demo: &Demo, tool: &str, arguments: &str, text: &str) {
    let result = call(demo, tool, arguments);
    assert_eq!((result.content.join("|").as_str(), result.is_error), (text, false), "{arguments}");
}

/// The tool could not do it.
fn fails(demo: &Demo, tool: &str, arguments: &str, text: &str) {
    let result = call(demo, tool, arguments);
    assert_eq!((result.content.join("|").as_str(), result.is_error), (text, true), "{arguments}");
}

/// The arguments are wrong, which the tool's definition says as well.
fn refuses(tool: &str, arguments: &str, text: &str) {
    fails(&Demo::new(), tool, arguments, text);
    assert!(!fits(tool, "inputSchema", arguments), "{tool} {arguments}");
}

#[test]
fn the_tools_are_one_line_of_definitions() {
    let demo = Demo::new();
    assert!(!demo.tools().contains('\n'));
    let document = Document::parse(demo.tools(), &Bounds::default()).unwrap();
    let mut categories = Vec::new();
    for (tool, name) in document.root().items().unwrap().zip(NAMES) {
        assert_eq!(tool.get("name").unwrap().as_str(), Some(name));
        categories.push(tool.get("_meta").unwrap().get("sluicegate/category").unwrap().as_str());
        for schema in ["inputSchema", "outputSchema"] {
            let schema = serde_json::from_str(tool.get(schema).unwrap().raw()).unwrap();
            assert!(jsonschema::meta::is_valid(&schema), "{name}");
        }
    }
    let expected = ["read", "write", "execute", "destructive", "financial", "other"];
    assert_eq!(categories, expected.map(Some));
    assert_eq!(document.root().items().unwrap().len(), NAMES.len());
}

#[test]
fn the_policy_names_every_tool_and_passes_its_own_tests() {
    let text: Json = serde_json::from_str(POLICY).unwrap();
    let named: Vec<&String> = text["tools"].as_object().unwrap().keys().collect();
    assert_eq!(named, NAMES);
    let policy = sluice_policy::load(POLICY.as_bytes(), sluice_policy::Format::Json).unwrap();
    let results = policy.run_tests();
    assert_eq!(results.len(), text["tests"].as_array().unwrap().len());
    for result in results {
        assert_eq!(result.failure, None, "{}", result.name);
    }
}

#[test]
fn other_tools_are_unknown() {
    for name in ["", "List_notes", "list_notes ", "x"] {
        assert_eq!(Demo::new().run(name, None), Err(UnknownTool), "{name}");
    }
}

#[test]
fn notes_are_found_added_and_deleted() {
    let demo = Demo::new();
    let welcome = "1 found\nnote-1: Welcome\n  \
        These notes and the ledger live in memory: restart the demo to start over.";
    check(&demo, "list_notes", r#"{"query": "WELCOME"}"#, welcome);
    check(&demo, "list_notes", r#"{"query": "nowhere"}"#, "0 found");
    check(
        &demo,
        "add_note",
        r#"{"title": "Milk", "text": "two \"litres\"\nor three"}"#,
        "added note-4",
    );
    check(
        &demo,
        "list_notes",
        r#"{"query": "milk"}"#,
        "1 found\nnote-4: Milk\n  two \"litres\"\nor three",
    );
    check(&demo, "delete_note", r#"{"id": "note-4"}"#, "deleted note-4");
    check(&demo, "list_notes", r#"{"query": "milk"}"#, "0 found");
    check(&demo, "add_note", r#"{"title": "Tea", "text": "t"}"#, "added note-5");
    let message = "there is no note `note-4`: expected an id as `list_notes` shows it";
    fails(&demo, "delete_note", r#"{"id": "note-4"}"#, message);
}

#[test]
fn a_limit_shortens_the_list_but_not_the_total() {
    let result = call(&Demo::new(), "list_notes", r#"{"limit": 1.0}"#);
    let list: Json = serde_json::from_str(result.structured.as_deref().unwrap()).unwrap();
    assert_eq!(list["notes"].as_array().unwrap().len(), 1);
    assert_eq!(list["total"], 3);
}

#[test]
fn a_full_notebook_says_so() {
    let demo = Demo::new();
    for _ in 3..1000 {
        assert!(!demo.run("add_note", Some(note().root())).unwrap().is_error);
    }
    let full = "the notebook is full: it holds 1000 notes";
    fails(&demo, "add_note", note().text(), full);
    check(&demo, "delete_note", r#"{"id": "note-7"}"#, "deleted note-7");
    check(&demo, "add_note", note().text(), "added note-1001");
}

fn note() -> Document {
    Document::parse(r#"{"title": "t", "text": "x"}"#, &Bounds::default()).unwrap()
}

#[test]
fn invoices_are_paid_to_the_cent() {
    let demo = Demo::new();
    let pay = |arguments, text| check(&demo, "pay_invoice", arguments, text);
    pay(
        r#"{"invoice": "INV-1001", "amount": 0.1}"#,
        "paid 0.10 to Beanery on INV-1001; 42.40 still owed, balance 999.90",
    );
    pay(
        r#"{"invoice": "INV-1001", "amount": 4.240e1, "to": "Beanery"}"#,
        "paid 42.40 to Beanery on INV-1001; 0.00 still owed, balance 957.50",
    );
    pay(
        r#"{"invoice": "INV-1003", "amount": 957.49}"#,
        "paid 957.49 to Plank & Sons on INV-1003; 292.51 still owed, balance 0.01",
    );
    let fail = |arguments, text| fails(&demo, "pay_invoice", arguments, text);
    fail(r#"{"invoice": "INV-1002", "amount": 0.02}"#, "the balance of 0.01 does not cover 0.02");
    fail(
        r#"{"invoice": "INV-1001", "amount": 0.01}"#,
        "only 0.00 is owed on `INV-1001`, less than 0.01",
    );
    fail(
        r#"{"invoice": "INV-9", "amount": 1}"#,
        "there is no invoice `INV-9`: expected one of `INV-1001`, `INV-1002`, `INV-1003`",
    );
    fail(
        r#"{"invoice": "INV-1002", "amount": 0.01, "to": "beanery"}"#,
        "`INV-1002` is owed to `Harbour Hosting`: leave `to` out, or name them",
    );
    check(&demo, "run_report", r#"{"expression": "balance"}"#, "balance = 0.01");
}

#[test]
fn fractions_of_a_cent_are_not_paid() {
    let message =
        "`amount` must be a number above 0, at most 1000000.00, with no more than two decimals";
    fails(&Demo::new(), "pay_invoice", r#"{"invoice": "INV-1001", "amount": 1.001}"#, message);
    for amount in ["0", "-1", "1000000.01", "1e400", "\"5\"", "null"] {
        let arguments = format!(r#"{{"invoice": "INV-1001", "amount": {amount}}}"#);
        refuses("pay_invoice", &arguments, message);
    }
}

fn report(expression: &str, value: &str) {
    let demo = Demo::new();
    call(&demo, "pay_invoice", r#"{"invoice": "INV-1001", "amount": 42.5}"#);
    call(&demo, "pay_invoice", r#"{"invoice": "INV-1002", "amount": 80}"#);
    let arguments = format!(r#"{{"expression": "{expression}"}}"#);
    check(&demo, "run_report", &arguments, &format!("{expression} = {value}"));
}

#[test]
fn reports_are_worked_out_exactly() {
    report("count(notes)", "3");
    report("count ( invoices )+1", "4");
    report("sum(invoices)", "1472.5");
    report("sum(invoices.open)", "1350");
    report("count(invoices.paid) * max(invoices.paid)", "160");
    report("min(invoices.open)", "100");
    report("balance - sum(invoices.open) * 2", "-1822.5");
    report("(1 + 2) * -3 - -0.1", "-8.9");
    report("0.1 + 0.2", "0.3");
    report("min(notes) * 0 + last", "0");
}

#[test]
fn the_last_value_is_kept_for_the_next_report() {
    let demo = Demo::new();
    check(&demo, "run_report", r#"{"expression": "20 + 1"}"#, "20 + 1 = 21");
    assert!(call(&demo, "run_report", r#"{"expression": "1 +"}"#).is_error);
    check(&demo, "run_report", r#"{"expression": "last * 2"}"#, "last * 2 = 42");
}

#[test]
fn expressions_that_mean_nothing_say_why() {
    let demo = Demo::new();
    let check = |expression: &str, text: &str| {
        fails(&demo, "run_report", &format!(r#"{{"expression": "{expression}"}}"#), text);
    };
    let not_a_value = |token: &str| {
        format!(
            "`{token}` is not a value: expected a number, `balance`, `last`, \
             or `count`, `sum`, `min` or `max` of some rows"
        )
    };
    check("1 +", "the expression ends where a value is expected");
    check("1 2", "unexpected `2` after the expression");
    check("(1", "expected `)`, found the end");
    check("count notes", "expected `(`, found `notes`");
    check("1 / 2", "`/` means nothing in an expression");
    check("system", &not_a_value("system"));
    check("1.2.3", &not_a_value("1.2.3"));
    check(".5", &not_a_value(".5"));
    check("1e9", &not_a_value("1e9"));
    check(
        "sum(users)",
        "`users` is not a set of rows: expected `notes`, `invoices`, `invoices.open` or `invoices.paid`",
    );
    check("min(invoices.paid)", "`invoices.paid` is empty, so it has no `min`");
    let large = "9".repeat(38);
    check(&format!("{large} * 10"), "a number in the expression has too many digits");
    check(&format!("{large} + {large}"), "a number in the expression has too many digits");
    check(&format!("{}1", "(".repeat(50)), "the expression is nested deeper than 20");
    check(&format!("{}1", "-".repeat(50)), "the expression is nested deeper than 20");
}

#[test]
fn pings_are_counted() {
    let demo = Demo::new();
    check(&demo, "ping_demo", "{}", "pong 1");
    check(&demo, "ping_demo", "{}", "pong 2");
    let third = ToolResult::text("pong 3").with_structured("{\"count\":3}".to_owned());
    assert_eq!(demo.run("ping_demo", None), Ok(third));
}

#[test]
fn wrong_arguments_are_told_what_is_expected() {
    refuses("ping_demo", r#"{"x": 1}"#, "unknown argument `x`: this tool takes none");
    refuses("add_note", r#"{"Title": "a"}"#, "unknown argument `Title`: expected `title`, `text`");
    refuses("add_note", r#"{"text": "a"}"#, "`title` must be a string of 1 to 100 characters");
    refuses("add_note", r#"{"title": "a"}"#, "`text` must be a string of 1 to 1000 characters");
    let long = format!(r#"{{"title": "a", "text": "{}"}}"#, "é".repeat(1001));
    refuses("add_note", &long, "`text` must be a string of 1 to 1000 characters");
    refuses("delete_note", r#"{"id": 7}"#, "`id` must be a string of 1 to 64 characters");
    refuses(
        "run_report",
        r#"{"expression": ""}"#,
        "`expression` must be a string of 1 to 200 characters",
    );
    for limit in ["0", "101", "1.5", "\"5\"", "null"] {
        let arguments = format!(r#"{{"limit": {limit}}}"#);
        refuses("list_notes", &arguments, "`limit` must be a whole number from 1 to 100");
    }
    refuses("list_notes", r#"{"query": ""}"#, "`query` must be a string of 1 to 100 characters");
    refuses("pay_invoice", r#"{"amount": 1}"#, "`invoice` must be a string of 1 to 64 characters");
}
