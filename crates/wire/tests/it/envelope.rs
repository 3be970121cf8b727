//! The JSON-RPC envelope: the four kinds of message, and what is none of them.

use sluice_wire::{
    json::{Bounds, Document},
    rpc::{Id, Message},
};

/// Says in one line what message `text` is, or why it is none.
fn recognise(text: &str) -> String {
    let document = Document::parse(text, &Bounds::default())
        .unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
    let shown = |id: &Id| match id {
        Id::Integer(text) => text.clone(),
        Id::String(text) => format!("{text:?}"),
    };
    match Message::read(&document) {
        Ok(Message::Request { id, method, params }) => {
            format!("request {} {method} {params:?}", shown(&id))
        }
        Ok(Message::Notification { method, params }) => format!("notification {method} {params:?}"),
        Ok(Message::Response { id, result }) => format!("response {} {result}", shown(&id)),
        Ok(Message::Failure { id, error }) => {
            format!("failure {} {error}", id.as_ref().map_or("-".into(), shown))
        }
        Err(error) => error.to_string(),
    }
}

fn check(text: &str, expected: &str) {
    assert_eq!(recognise(text), expected, "{text}");
}

/// As [`check`], for a message that has `members` beside its version.
fn check_members(members: &str, expected: &str) {
    check(&format!(r#"{{"jsonrpc":"2.0",{members}}}"#), expected);
    check(&format!(r#"{{{members},"jsonrpc":"2.0"}}"#), expected);
}

#[test]
fn the_four_kinds() {
    check_members(r#""id":1,"method":"ping""#, "request 1 ping None");
    check_members(r#""id":"a","method":"m","params":{"x":1}"#, r#"request "a" m Some({"x":1})"#);
    check_members(r#""params":[],"method":"m","id":-7"#, "request -7 m Some([])");
    check_members(r#""method":"m""#, "notification m None");
    check_members(r#""method":"m","params":{}"#, "notification m Some({})");
    check_members(r#""id":1,"result":{"a":[]}"#, r#"response 1 {"a":[]}"#);
    check_members(r#""id":1,"result":null"#, "response 1 null");
    check_members(r#""id":1,"error":{"code":-1}"#, r#"failure 1 {"code":-1}"#);
    check_members(r#""id":null,"error":{}"#, "failure - {}");
    check_members(r#""error":{}"#, "failure - {}");
    check_members(r#""\u006dethod":"\u0070ing","id":1"#, "request 1 ping None");
}

#[test]
fn an_id_is_a_string_or_an_integer() {
    let huge = "123456789012345678901234567890";
    for (id, expected) in [
        ("0", "0"),
        ("-1", "-1"),
        ("18446744073709551616", "18446744073709551616"),
        (huge, huge),
        (r#""""#, r#""""#),
        (r#""1""#, r#""1""#),
        (r#""\u0061\n""#, r#""a\n""#),
    ] {
        check_members(&format!(r#""id":{id},"method":"m""#), &format!("request {expected} m None"));
        check_members(&format!(r#""id":{id},"result":1"#), &format!("response {expected} 1"));
    }
    for id in ["null", "1.0", "1.5", "1e3", "1E3", "-0", "-0.0", "true", "false", "[]", "[1]", "{}"]
    {
        let refused = "`id` must be a string or an integer";
        check_members(&format!(r#""id":{id},"method":"m""#), refused);
        check_members(&format!(r#""id":{id},"result":1"#), refused);
        if id != "null" {
            check_members(&format!(r#""id":{id},"error":{{}}"#), refused);
        }
    }
    assert_ne!(Id::Integer("1".into()), Id::String("1".into()));
}

#[test]
fn batches_and_bare_values() {
    for text in ["[]", "[1]", r#"[{"jsonrpc":"2.0","method":"m"}]"#] {
        check(text, "batches are not accepted: send one message at a time");
    }
    for (text, kind) in
        [("null", "null"), ("true", "boolean"), ("1", "number"), (r#""ping""#, "string")]
    {
        check(text, &format!("a message is an object, not a {kind}"));
    }
}

#[test]
fn the_version_is_2_0() {
    for text in [
        "{}",
        r#"{"id":1,"method":"m"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2","id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0 ","id":1,"method":"m"}"#,
        r#"{"jsonrpc":null,"id":1,"method":"m"}"#,
        r#"{"jsonrpc":["2.0"],"id":1,"method":"m"}"#,
    ] {
        check(text, "`jsonrpc` must be \"2.0\"");
    }
    check(r#"{"jsonrpc":"\u0032.0","method":"m"}"#, "notification m None");
}

#[test]
fn a_message_is_one_thing() {
    for (members, pair) in [
        (r#""id":1,"method":"m","result":1"#, "`method` and `result`"),
        (r#""id":1,"method":"m","result":null"#, "`method` and `result`"),
        (r#""method":"m","error":{}"#, "`method` and `error`"),
        (r#""id":1,"result":1,"error":{}"#, "`result` and `error`"),
        (r#""id":1,"result":1,"error":null"#, "`result` and `error`"),
        (r#""id":1,"method":"m","result":1,"error":{}"#, "`method` and `result`"),
        (r#""id":1,"result":1,"params":{}"#, "`params` and `result`"),
        (r#""id":1,"error":{},"params":{}"#, "`params` and `error`"),
    ] {
        check_members(members, &format!("{pair} cannot stand in one message"));
    }
    check_members(r#""id":1"#, "neither `method`, `result` nor `error` is there");
    check_members(r#""id":1,"params":{}"#, "neither `method`, `result` nor `error` is there");
    check_members(r#""result":1"#, "a response needs the `id` of its request");
}

#[test]
fn members_have_their_types() {
    for method in ["null", "1", "[]", r#"["m"]"#, "{}", "true"] {
        check_members(&format!(r#""id":1,"method":{method}"#), "`method` must be a string");
        check_members(&format!(r#""method":{method}"#), "`method` must be a string");
    }
    for params in ["null", "1", r#""{}""#, "true"] {
        let refused = "`params` must be an object or a list";
        check_members(&format!(r#""id":1,"method":"m","params":{params}"#), refused);
        check_members(&format!(r#""method":"m","params":{params}"#), refused);
    }
    for error in ["null", "1", r#""no""#, "[]"] {
        check_members(&format!(r#""id":1,"error":{error}"#), "`error` must be an object");
    }
}

#[test]
fn members_that_look_like_the_envelopes_own() {
    for (key, found, meant) in [
        ("Method", "Method", "method"),
        ("METHOD", "METHOD", "method"),
        ("ID", "ID", "id"),
        ("JsonRpc", "JsonRpc", "jsonrpc"),
        (r"id\u0000", "id\0", "id"),
        (r"id\u0000x", "id\0x", "id"),
        (r"\u0000method", "\0method", "method"),
        (" params", " params", "params"),
        (r"params\t", "params\t", "params"),
        (r"params\u00a0", "params\u{a0}", "params"),
        (r"\ufeffparams", "\u{feff}params", "params"),
        (r"params\u0001", "params\u{1}", "params"),
        ("reſult", "re\u{17f}ult", "result"),
        (r"re\u017fult", "re\u{17f}ult", "result"),
        ("ıd", "\u{131}d", "id"),
        ("Error ", "Error ", "error"),
    ] {
        let refused = format!("`{found}` looks like `{meant}`: send `{meant}` only");
        check_members(&format!(r#""id":1,"method":"m","{key}":1"#), &refused);
        // It is refused even where the real member is missing.
        check(&format!(r#"{{"{key}":1}}"#), &refused);
    }
    let padded = format!("id{}", " ".repeat(1000));
    let shown = format!("id{}", " ".repeat(62));
    check_members(
        &format!(r#""{padded}":1"#),
        &format!("`{shown}` looks like `id`: send `id` only"),
    );
}

#[test]
fn unknown_members_are_kept_and_mean_nothing() {
    let text = r#"{"jsonrpc":"2.0","_meta":{"a":1},"methods":1,"identity":2,"":3,"method":"m"}"#;
    check(text, "notification m None");
    let document = Document::parse(text, &Bounds::default()).unwrap();
    assert_eq!(document.root().get("_meta").unwrap().raw(), r#"{"a":1}"#);
    assert_eq!(document.into_text(), text);
    // Only the envelope's own level is looked at here.
    check_members(r#""method":"m","params":{"Method":1}"#, r#"notification m Some({"Method":1})"#);
}
