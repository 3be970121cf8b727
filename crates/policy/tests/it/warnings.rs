//! What loads and has no effect is warned of, and what has one is not.

use sluice_policy::{Format, ToolFacts, find_warnings, load};
use sluice_wire::json::{Bounds, Document};

const TOOLS: &str = r#"[
    { "name": "pay", "inputSchema": { "type": "object", "properties": {
        "amount": { "type": "number" }, "to": { "type": "object", "properties": { "iban": { "type": "string" } } },
        "tags": { "type": "array", "items": { "type": "string" } }, "urgent": { "type": ["boolean", "null"] } } } },
    { "name": "get_page", "inputSchema": { "type": "object", "properties": { "id": { "type": "string" } } } },
    { "name": "get_open", "inputSchema": { "type": "object" } } ]"#;

/// The warnings for a policy's members besides `version` and `default`, each with its hint.
fn warnings(members: &str) -> Vec<String> {
    let list = Document::parse(TOOLS, &Bounds::default()).unwrap();
    let tools = ToolFacts::from_list(list.root()).unwrap();
    let text = format!(r#"{{ "version": "1", "default": "deny", {members} }}"#);
    load(text.as_bytes(), Format::Json).unwrap();
    find_warnings(text.as_bytes(), Format::Json, Some(&tools))
        .into_iter()
        .map(|one| format!("{} | {}", one.message, one.hint.unwrap_or_default()))
        .collect()
}

#[track_caller]
fn check(members: &str, expected: &[&str]) {
    let found = warnings(members);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, parts) in found.iter().zip(expected) {
        assert!(parts.split('&').all(|part| found.contains(part.trim())), "{found} lacks {parts}");
    }
}

/// A condition in `require` of `pay`.
fn condition(path: &str, rest: &str) -> String {
    format!(
        r#""tools": {{ "pay": {{ "require": [{{ "conditions": [{{ "path": "{path}", {rest} }}] }}] }} }}"#
    )
}

#[test]
fn names_that_match_no_tool_are_named_with_what_was_meant() {
    check(r#""tools": { "pay": {}, "get_*": {}, "@destructive": {} }"#, &[]);
    check(r#""tools": { "get_pages": {} }"#, &["no tool `get_pages` & did you mean `get_page`?"]);
    for twin in ["Pay", "pay ", "p\u{430}y", "GET_PAGE"] {
        check(&format!(r#""tools": {{ "{twin}": {{}} }}"#), &["no tool & it looks like & exactly"]);
    }
    check(r#""tools": { "list_*": {} }"#, &["`list_*` matches no tool"]);
    check(
        r#""hide": ["drop", "x*"], "tools": { "*": { "except": ["get_pag"] } }"#,
        &["no tool `drop`", "`x*` matches no tool", "no tool `get_pag` & did you mean `get_page`?"],
    );
}

#[test]
fn entries_for_hidden_tools_have_no_effect() {
    check(r#""hide": ["pay"], "tools": { "pay": {} }"#, &["`pay` is hidden"]);
    check(
        r#""hide": ["get_*"], "tools": { "get_page": {}, "pay": {} }"#,
        &["`get_page` is hidden"],
    );
    check(r#""hide": ["get_*"], "tools": { "get_p*": {} }"#, &["`get_p*` is hidden"]);
    check(r#""hide": ["get_page"], "tools": { "get_*": {}, "pay": { "action": "hide" } }"#, &[]);
}

#[test]
fn arguments_that_no_tool_has_are_named_with_what_was_meant() {
    let number = r#""op": "lte", "value": 5"#;
    check(&condition("args.amount", number), &[]);
    check(&condition("args.amout", number), &["`args.amout` & did you mean `args.amount`?"]);
    let text = r#""op": "eq", "value": "x""#;
    check(&condition("args.to.iban", text), &[]);
    check(&condition("args.to.ibam", text), &["`args.to.ibam` & `args.to.iban`"]);
    check(&condition("args.tags.*", text), &[]);
    check(&condition("args.tags.0", text), &[]);
    // One of the tools leaves its arguments open, and one has it.
    let on = |key: &str, path: &str| {
        format!(
            r#""tools": {{ "{key}": {{ "limits": [{{ "counter": "c", "window": "day", "max": 1, "increment_from": "{path}" }}] }} }}"#
        )
    };
    check(&on("get_*", "args.size"), &[]);
    check(&on("*", "args.amount"), &[]);
    check(&on("get_page", "args.size"), &["`args.size` & arguments there are: id"]);
}

#[test]
fn operators_that_cannot_fit_the_type_are_named() {
    check(
        &condition("args.to.iban", r#""op": "gt", "value": 5"#),
        &["`gt` needs a number & `string`"],
    );
    check(&condition("args.amount", r#""op": "ends_with", "value": "5""#), &["needs a string"]);
    check(&condition("args.amount", r#""op": "eq", "value": "5""#), &["needs a string & `number`"]);
    check(&condition("args.amount", r#""op": "in", "value": [5, "x"]"#), &[]);
    check(&condition("args.amount", r#""op": "in", "value": ["x"]"#), &["the type of a value"]);
    check(&condition("args.tags", r#""op": "contains", "value": 5"#), &[]);
    check(&condition("args.urgent", r#""op": "eq", "value": true"#), &[]);
    check(&condition("args.urgent", r#""op": "exists""#), &[]);
}

/// These need no list of tools.
#[test]
fn empty_lists_are_named() {
    check(&condition("args.amount", r#""op": "in", "value": []"#), &["empty list & denied"]);
    check(&condition("args.to.iban", r#""op": "url_host_in", "value": []"#), &["no value"]);
    let text = format!(
        r#"{{ "version": "1", "default": "deny", "hide": ["pay"], {} }}"#,
        condition("args.x", r#""op": "in", "value": []"#)
    );
    let found = find_warnings(text.as_bytes(), Format::Json, None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].line, found[0].column > 40), (1, true));
}
