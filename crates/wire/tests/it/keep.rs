//! What is kept: number text, key order, source bytes, and one tree per text.

use sluice_wire::json::{Bounds, Document, Kind, Value};

fn read(text: &str) -> Document {
    Document::parse(text, &Bounds::default()).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
}

#[test]
fn numbers_keep_their_text() {
    for text in [
        "0",
        "-0",
        "1",
        "1.0",
        "1.00",
        "18446744073709551616",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "1E400",
        "1e400",
        "1e+400",
        "-1.5E-4000",
        "0e0",
    ] {
        for document in [text.to_owned(), format!(" [{text}] "), format!("{{\"n\":\t{text}}}")] {
            let document = read(&document);
            let root = document.root();
            let number = root.items().and_then(|mut items| items.next()).or(root.get("n"));
            assert_eq!(number.unwrap_or(root).as_number(), Some(text));
            assert!(root.to_string().contains(text), "{root}");
        }
    }
}

#[test]
fn strings_are_decoded() {
    let check = |text: &str, expected: &str| {
        assert_eq!(read(text).root().as_str(), Some(expected), "{text}");
        assert_eq!(read(text).root().raw(), text);
    };
    check(r#""""#, "");
    check(r#""plain é 漢 😀""#, "plain é 漢 😀");
    check(r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t");
    check(r#""\u0000\u001f\u007f""#, "\0\u{1f}\u{7f}");
    check(r#""\u00e9\u6F22\uffff\ud83D\uDe00""#, "é漢\u{ffff}😀");
    check(r#""\ud800\udc00\udbff\udfff""#, "\u{10000}\u{10ffff}");
    // DEL and the separators of JavaScript need no escape in JSON.
    check("\"\u{7f}\u{2028}\u{2029}\u{feff}\"", "\u{7f}\u{2028}\u{2029}\u{feff}");
    check(r#""a\u0022,\u0022b""#, "a\",\"b");
}

#[test]
fn a_string_ends_at_its_quote_wherever_that_is() {
    // Strings are searched eight bytes at a time.
    for length in 0..40 {
        for before in 0..9 {
            let content = "é".repeat(length / 2) + &"x".repeat(length % 2);
            let text = format!("{}[\"{content}\",1]", " ".repeat(before));
            let document = read(&text);
            let mut items = document.root().items().unwrap();
            assert_eq!(items.next().and_then(Value::as_str), Some(&*content));
            assert_eq!(items.next().and_then(Value::as_number), Some("1"));
            assert!(items.next().is_none());
        }
    }
}

#[test]
fn keys_keep_their_order() {
    let document = read(r#"{"z":1,"a":2,"m":{"b":1,"\u0061":2},"0":3}"#);
    let keys = |value: Value<'_>| -> Vec<String> {
        value.members().unwrap().map(|(key, _)| key.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(document.root()), ["z", "a", "m", "0"]);
    assert_eq!(keys(document.root().get("m").unwrap()), ["b", "a"]);
}

#[test]
fn source_text_is_kept_to_the_byte() {
    let text = " {\"a\\u0062\" : [ 1.0 ,\r\n{ } , \"\\/\" ]\t,\"c\":[ ]} \n";
    let document = read(text);
    assert_eq!(document.text(), text);
    let root = document.root();
    assert_eq!(root.raw(), text.trim());
    assert_eq!(root.offset(), 1);
    let (key, list) = root.members().unwrap().next().unwrap();
    assert_eq!((key.raw(), key.as_str()), (r#""a\u0062""#, Some("ab")));
    assert_eq!(list.raw(), "[ 1.0 ,\r\n{ } , \"\\/\" ]");
    let items: Vec<&str> = list.items().unwrap().map(Value::raw).collect();
    assert_eq!(items, ["1.0", "{ }", r#""\/""#]);
    assert_eq!(root.get("c").unwrap().raw(), "[ ]");
    assert_eq!(document.into_text(), text);
}

#[test]
fn members_are_found_by_their_exact_name() {
    let document = read(r#"{"a":1,"b":{"a":2},"\u0063":[3],"":4,"a\u0000":5}"#);
    let root = document.root();
    let number = |key: &str| root.get(key).and_then(Value::as_number);
    assert_eq!(number("a"), Some("1"));
    assert_eq!(number(""), Some("4"));
    assert_eq!(number("a\0"), Some("5"));
    assert_eq!(root.get("b").and_then(|inner| inner.get("a")).unwrap().raw(), "2");
    assert_eq!(root.get("c").unwrap().raw(), "[3]");
    for absent in ["A", "a ", "d", "\\u0063"] {
        assert_eq!(root.get(absent), None, "{absent}");
    }
    assert_eq!(read("[1]").root().get("0"), None);
    assert_eq!(read("\"a\"").root().get("a"), None);
}

#[test]
fn a_value_answers_only_as_what_it_is() {
    for (text, kind, name) in [
        ("null", Kind::Null, "null"),
        ("true", Kind::Bool, "boolean"),
        ("false", Kind::Bool, "boolean"),
        ("1", Kind::Number, "number"),
        ("\"1\"", Kind::String, "string"),
        ("[1]", Kind::List, "list"),
        ("{\"1\":1}", Kind::Object, "object"),
    ] {
        let document = read(text);
        let value = document.root();
        assert_eq!((value.kind(), value.kind().name()), (kind, name));
        assert_eq!(value.is_null(), kind == Kind::Null);
        assert_eq!(value.as_bool(), (kind == Kind::Bool).then_some(text == "true"));
        assert_eq!(value.as_number(), (kind == Kind::Number).then_some("1"));
        assert_eq!(value.as_str(), (kind == Kind::String).then_some("1"));
        assert_eq!(value.items().map(|items| items.len()), (kind == Kind::List).then_some(1));
        assert_eq!(value.members().map(|all| all.len()), (kind == Kind::Object).then_some(1));
    }
}

#[test]
fn equal_means_the_same_tree() {
    let check = |left: &str, right: &str, expected: bool| {
        let (left, right) = (read(left), read(right));
        assert_eq!(left.root() == right.root(), expected, "{left:?} / {right:?}");
        assert_eq!(right.root() == left.root(), expected, "{right:?} / {left:?}");
    };
    check("[1, {\"a\" : \"\\u0062\"}]", r#"[1,{"\u0061":"b"}]"#, true);
    check("null", "null", true);
    check("[]", "[]", true);
    check("[]", "{}", false);
    check("true", "false", false);
    check("1.0", "1", false);
    check("1", "\"1\"", false);
    check("null", "false", false);
    check("[1,2]", "[2,1]", false);
    check("[1]", "[1,1]", false);
    check("[[]]", "[[],[]]", false);
    check(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, false);
    check(r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false);
    check(r#"{"a":1}"#, r#"{"b":1}"#, false);
    check(r#"{"a":{}}"#, r#"{"a":[]}"#, false);
}

#[test]
fn printing_is_compact_and_escapes_only_what_must_be() {
    let check = |text: &str, expected: &str| {
        let document = read(text);
        assert_eq!(document.root().to_string(), expected);
        assert_eq!(format!("{:?}", document.root()), expected);
        assert_eq!(format!("{document:?}"), format!("Document({expected})"));
    };
    check(" [ 1.0 , -0 , true , null , false ] ", "[1.0,-0,true,null,false]");
    check("{ \"b\" : [ ] , \"a\" : { } }", r#"{"b":[],"a":{}}"#);
    check(r#""\u0061\/\u00e9\ud83d\ude00""#, r#""a/é😀""#);
    check(r#""\u0022\u005c\u000a\u000d\u0009""#, r#""\"\\\n\r\t""#);
    check(r#""\b\f\u0000\u001F\u007f""#, "\"\\u0008\\u000c\\u0000\\u001f\u{7f}\"");
    check(r#"{"\"":"\\"}"#, r#"{"\"":"\\"}"#);
}

#[test]
fn a_file_may_be_read_with_its_repeated_keys() {
    let text = r#"{"a":1,"\u0061":2,"b":{"c":1,"c":1}}"#;
    let document = Document::parse_keeping_repeated_keys(text, &Bounds::default()).unwrap();
    let keys: Vec<_> = document.root().members().unwrap().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, [Some("a"), Some("a"), Some("b")]);
    assert_eq!(document.root().get("b").unwrap().to_string(), r#"{"c":1,"c":1}"#);
    assert_eq!(document.root().get("a").unwrap().raw(), "1", "the first of them");
}
