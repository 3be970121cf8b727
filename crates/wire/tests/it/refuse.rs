//! Every text that is refused, with the reason and the byte.

use sluice_wire::json::{Bounds, Document};

fn check(text: impl AsRef<[u8]>, expected: &str) {
    check_within(&Bounds::default(), text, expected);
}

fn check_within(bounds: &Bounds, text: impl AsRef<[u8]>, expected: &str) {
    let text = text.as_ref();
    let found = Document::parse(text, bounds).map_err(|refusal| refusal.to_string());
    let found = found.map(Document::into_text);
    let start = text.get(..200).unwrap_or(text).escape_ascii();
    assert_eq!(found, Err(expected.to_owned()), "{start}");
}

fn check_fits(bounds: &Bounds, text: &str) {
    let found = Document::parse(text, bounds).map(Document::into_text);
    assert_eq!(found.as_deref(), Ok(text));
}

/// An object with the keys `k0`, `k1` and so on, and then `last`.
fn object_ending_in(keys: usize, last: &str) -> String {
    let members: Vec<String> = (0..keys).map(|number| format!(r#""k{number}":{number}"#)).collect();
    format!("{{{},{last}}}", members.join(","))
}

#[test]
fn a_key_named_twice() {
    check(r#"{"a":1,"a":1}"#, "duplicate key `a` at byte 7");
    check(r#"{"a":1,"b":2,"a":3}"#, "duplicate key `a` at byte 13");
    check(r#"{"":1,"":2}"#, "duplicate key `` at byte 6");
    check(r#"[[{"x":{"a":[],"a":{}}}]]"#, "duplicate key `a` at byte 15");
    check(r#"{"a":{"b":1},"c":{"b":1},"a":2}"#, "duplicate key `a` at byte 25");
    // The repeat counts from the moment it is met, whatever comes after.
    check(r#"{"a":1,"a"#, "unexpected end of text at byte 9");
    check(r#"{"a":1,"a""#, "duplicate key `a` at byte 7");
}

#[test]
fn a_key_named_twice_in_two_spellings() {
    check(r#"{"a":1,"\u0061":2}"#, "duplicate key `a` at byte 7");
    check(r#"{"\u0061":1,"a":2}"#, "duplicate key `a` at byte 12");
    check(r#"{"/":1,"\/":2}"#, "duplicate key `/` at byte 7");
    check(r#"{"\n":1,"\u000A":2}"#, "duplicate key `\n` at byte 8");
    check(r#"{"😀":1,"\ud83d\uDE00":2}"#, "duplicate key `😀` at byte 10");
    check(r#"{"a\u0000":1,"\u0061\u0000":2}"#, "duplicate key `a\0` at byte 13");
}

#[test]
fn a_key_named_twice_among_many() {
    // Up to 16 keys are compared as they come, more are sorted at the end;
    // both sides of that edge, and repeats of the first, a middle and the last key.
    for keys in [14, 15, 16, 17, 18, 40, 3000] {
        for repeated in [0, keys / 2, keys - 1] {
            for spelling in [format!("k{repeated}"), format!("\\u006b{repeated}")] {
                let text = object_ending_in(keys, &format!(r#""{spelling}":null"#));
                let offset = text.rfind(r#",""#).unwrap() + 1;
                check(&text, &format!("duplicate key `k{repeated}` at byte {offset}"));
                check(
                    format!("[{text}]"),
                    &format!("duplicate key `k{repeated}` at byte {}", offset + 1),
                );
            }
        }
        check_fits(&Bounds::default(), &object_ending_in(keys, r#""K0":null"#));
    }
}

#[test]
fn keys_that_only_share_a_digest_are_not_repeats() {
    let alike = r#""":0,"\u0001":0,"\u0002\u0000":0"#;
    check_fits(&Bounds::default(), &format!("{{{alike}}}"));
    check(format!(r#"{{{alike},"\u0001":0}}"#), "duplicate key `\u{1}` at byte 34");
    check_fits(&Bounds::default(), &object_ending_in(20, alike));
    let repeated = object_ending_in(20, &format!(r#"{alike},"\u0001":0"#));
    let offset = repeated.rfind(r#",""#).unwrap() + 1;
    check(&repeated, &format!("duplicate key `\u{1}` at byte {offset}"));
}

#[test]
fn the_first_of_several_repeats_is_named() {
    let text = object_ending_in(20, r#""k9":0,"k3":0,"k9":0"#);
    let offset = text.find(r#""k9":0"#).unwrap();
    check(&text, &format!("duplicate key `k9` at byte {offset}"));
}

#[test]
fn a_repeat_hidden_behind_other_objects() {
    // The keys of inner objects leave the stack when those close, large or small.
    let inner = object_ending_in(20, r#""z":0"#);
    check(
        format!(r#"{{"z":{inner},"z":0}}"#),
        &format!("duplicate key `z` at byte {}", { 6 + inner.len() }),
    );
    check_fits(&Bounds::default(), &format!(r#"{{"z":{inner},"k0":{inner}}}"#));
    check_fits(&Bounds::default(), r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#);
}

#[test]
fn a_long_repeated_key_is_not_repeated_in_full() {
    let key = "é".repeat(500);
    let shown = "é".repeat(64);
    check(
        format!(r#"{{"{key}":1,"{key}":1}}"#),
        &format!("duplicate key `{shown}` at byte {}", 1 + 1002 + 3),
    );
}

#[test]
fn bytes_that_are_not_utf_8() {
    check(b"\"\xff\"", "invalid UTF-8 at byte 1");
    check(b"[\"ok\", \"\xc3\"]", "invalid UTF-8 at byte 8");
    check(b"\"\xc0\xaf\"", "invalid UTF-8 at byte 1");
    // A surrogate, a point past the last one, and a text cut within a character.
    check(b"\"\xed\xa0\x80\"", "invalid UTF-8 at byte 1");
    check(b"\"\xf4\x90\x80\x80\"", "invalid UTF-8 at byte 1");
    check(b"\"\xf0\x9f\x98", "invalid UTF-8 at byte 1");
    check(b"{}\xff", "invalid UTF-8 at byte 2");
    // UTF-16, either way round.
    check(b"\xff\xfe{\0}\0", "invalid UTF-8 at byte 0");
    check(b"\0{\0}", "expected a value at byte 0");
}

#[test]
fn a_byte_order_mark() {
    check(b"\xef\xbb\xbf{}", "byte order mark at byte 0");
    check(b"\xef\xbb\xbf", "byte order mark at byte 0");
    check(b" \xef\xbb\xbf{}", "expected a value at byte 1");
    check(b"{}\xef\xbb\xbf", "unexpected text after the value at byte 2");
}

#[test]
fn half_of_a_surrogate_pair() {
    for (text, offset) in [
        (r#""\ud800""#, 1),
        (r#""\uDFFF""#, 1),
        (r#""a\udc00b""#, 2),
        (r#""\ud800\ud800""#, 1),
        (r#""\udc00\ud800""#, 1),
        (r#""\udc00\udc00""#, 1),
        (r#""\ud83d\u0041""#, 1),
        (r#""\ud83dA""#, 1),
        (r#""\ud83d\n""#, 1),
        (r#""\ud83d\ude00\ud83d""#, 13),
        (r#"{"\ud800":1}"#, 2),
    ] {
        check(text, &format!("half of a surrogate pair at byte {offset}"));
    }
}

#[test]
fn escapes_that_are_none() {
    for (text, offset) in [
        (r#""\x41""#, 1),
        (r#""ab\'""#, 3),
        (r#""\U0041""#, 1),
        (r#""\u00g0""#, 1),
        (r#""\u+041""#, 1),
        (r#""\u 041""#, 1),
        (r#""\u{41}""#, 1),
        (r#""\u12""#, 1),
        (r#"["\u12"]"#, 2),
        (r#""\u00é""#, 1),
        (r#""\ud83d\u00""#, 1),
        ("\"\\\n\"", 1),
    ] {
        check(text, &format!("unknown escape in a string at byte {offset}"));
    }
}

#[test]
fn control_characters_in_a_string() {
    // At every place of the eight bytes that are looked at together, and after them.
    for (before, after) in (0..20).flat_map(|before| [(before, ""), (before, "12345678")]) {
        for control in (0..0x20).map(char::from) {
            let text = format!("\"{}{control}{after}\"", "x".repeat(before));
            let refused = "control character in a string: write it as \\u00xx";
            check(&text, &format!("{refused} at byte {}", before + 1));
        }
    }
    check("{\"a\tb\":1}", "control character in a string: write it as \\u00xx at byte 3");
    check("\"\\u0041\n\"", "control character in a string: write it as \\u00xx at byte 7");
}

#[test]
fn text_after_the_value() {
    for (text, offset) in [
        ("{}{}", 2),
        ("1 2", 2),
        ("null,", 4),
        ("nullx", 4),
        ("[]]", 2),
        ("{}}", 2),
        ("0x10", 1),
        ("1_000", 1),
        ("-0-", 2),
        ("{}\0", 2),
        ("{}\u{a0}", 2),
        ("{}\u{b}", 2),
        ("\"a\"b", 3),
    ] {
        check(text, &format!("unexpected text after the value at byte {offset}"));
    }
}

#[test]
fn numbers_of_other_languages() {
    for (text, offset) in
        [("NaN", 0), ("Infinity", 0), ("inf", 0), ("+1", 0), (".5", 0), ("[1,+2]", 3), ("٣", 0)]
    {
        check(text, &format!("expected a value at byte {offset}"));
    }
    for (text, offset) in [("01", 1), ("-01", 2), ("00", 1), ("[0,007]", 4), ("00.5", 1)] {
        check(text, &format!("number with a leading zero at byte {offset}"));
    }
    for (text, offset) in [
        ("-", 1),
        ("-Infinity", 1),
        ("-.5", 1),
        ("--1", 1),
        ("- 1", 1),
        ("1.", 2),
        ("1.e5", 2),
        ("[1.]", 3),
        ("0.,", 2),
        ("1e", 2),
        ("1E+", 3),
        ("1e-,", 3),
        ("1e 5", 2),
        ("1e.5", 2),
    ] {
        check(text, &format!("incomplete number at byte {offset}"));
    }
    check("[1e5.5]", "expected `,` or `]` at byte 4");
    check("[1f]", "expected `,` or `]` at byte 2");
}

#[test]
fn comments() {
    for (text, offset) in [
        ("// x\n{}", 0),
        ("/**/1", 0),
        ("{} // x", 3),
        ("[1, /* two */ 2]", 4),
        ("[1 /* one */]", 3),
        ("{ /* none */ }", 2),
        ("{\"a\" /**/ :1}", 5),
        ("{\"a\": /**/ 1}", 6),
        ("[/**/]", 1),
    ] {
        check(text, &format!("comments are not JSON at byte {offset}"));
    }
    check("# x\n{}", "expected a value at byte 0");
}

#[test]
fn a_text_that_ends_too_soon() {
    for text in [
        "",
        "  \n",
        "[",
        "[1",
        "[1,",
        "[1, ",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "\"",
        "\"ab",
        "\"12345678",
        "\"\\",
        "\"\\u",
        "\"\\u00",
        "\"\\n",
        "\"\\ud83d\\u",
        "[[[",
        "{\"a\":[",
    ] {
        check(text, &format!("unexpected end of text at byte {}", text.len()));
    }
}

#[test]
fn words_and_marks_out_of_place() {
    for (text, wanted, offset) in [
        ("tru", "a value", 0),
        ("nul]", "a value", 0),
        ("True", "a value", 0),
        ("None", "a value", 0),
        ("undefined", "a value", 0),
        ("'a'", "a value", 0),
        ("\u{a0}1", "a value", 0),
        ("\u{c}1", "a value", 0),
        ("]", "a value", 0),
        (":", "a value", 0),
        ("[,]", "a value", 1),
        ("[1,]", "a value", 3),
        ("[1,,2]", "a value", 3),
        ("[}", "a value", 1),
        ("{\"a\":}", "a value", 5),
        ("{\"a\":,}", "a value", 5),
        ("[1 2]", "`,` or `]`", 3),
        ("[1}", "`,` or `]`", 2),
        ("[1:2]", "`,` or `]`", 2),
        ("{\"a\":1]", "`,` or `}`", 6),
        ("{\"a\":1 \"b\":2}", "`,` or `}`", 7),
        ("{\"a\":1;}", "`,` or `}`", 6),
        ("{\"a\" 1}", "`:`", 5),
        ("{\"a\"=1}", "`:`", 4),
        ("{\"a\",\"b\"}", "`:`", 4),
        ("{a:1}", "a key in double quotes", 1),
        ("{'a':1}", "a key in double quotes", 1),
        ("{1:1}", "a key in double quotes", 1),
        ("{\"a\":1,}", "a key in double quotes", 7),
        ("{,}", "a key in double quotes", 1),
        ("{]", "a key in double quotes", 1),
        ("{null:1}", "a key in double quotes", 1),
    ] {
        check(text, &format!("expected {wanted} at byte {offset}"));
    }
}

#[test]
fn nesting_past_64() {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let bounds = Bounds::default();
    check_fits(&bounds, &lists(64));
    check_fits(&bounds, &objects(64));
    check(lists(65), "nested deeper than 64 at byte 64");
    check(objects(65), "nested deeper than 64 at byte 320");
    // No end is needed to refuse it, and no stack is used up on the way.
    check("[".repeat(1 << 20), "nested deeper than 64 at byte 64");
    check_fits(&Bounds { depth: 0, ..bounds }, "1");
    check_within(&Bounds { depth: 0, ..bounds }, "[]", "nested deeper than 0 at byte 0");
    // Depth is what is open at once; siblings do not add to it.
    check_fits(&Bounds { depth: 2, ..bounds }, "[[],[],{},[]]");
}

#[test]
fn strings_past_their_bound() {
    let bounds = Bounds { string: 10, ..Bounds::default() };
    for fits in
        [r#""0123456789""#, r#""\u0061\u0061\u0061\u0061\u0061\u0061\u0061\u0061\u0061\u0061""#]
    {
        check_fits(&bounds, fits);
    }
    check_fits(&bounds, r#""012345\ud83d\ude00""#);
    check_fits(&bounds, r#"{"0123456789":"0123456\n89"}"#);
    for (text, offset) in [
        (r#""0123456789a""#, 0),
        (r#"["", "0123456789\n"]"#, 5),
        (r#""\n0123456789""#, 0),
        (r#""0123456\ud83d\ude00""#, 0),
        (r#""ééééé\n""#, 0),
        (r#"{"0123456789a":1}"#, 1),
        (r#"{"a":"\n\n\n\n\n\n\n\n\n\n\n"}"#, 5),
    ] {
        check_within(&bounds, text, &format!("string longer than 10 bytes at byte {offset}"));
    }
    let long = format!("\"{}\"", "x".repeat((1 << 20) + 1));
    check(&long, "string longer than 1048576 bytes at byte 0");
    check_fits(&Bounds::default(), &format!("\"{}\"", "x".repeat(1 << 20)));
}

#[test]
fn numbers_past_their_bound() {
    let bounds = Bounds { number: 5, ..Bounds::default() };
    for fits in ["12345", "-1234", "1.2e3", "-0e-1"] {
        check_fits(&bounds, fits);
    }
    for (text, offset) in [("123456", 0), ("-12345", 0), ("[1, 1.0000]", 4), ("1e+100", 0)] {
        check_within(&bounds, text, &format!("number longer than 5 bytes at byte {offset}"));
    }
    check("9".repeat(1025), "number longer than 1024 bytes at byte 0");
    check_fits(&Bounds::default(), &"9".repeat(1024));
}

#[test]
fn members_past_their_bound() {
    let bounds = Bounds { members: 3, ..Bounds::default() };
    check_fits(&bounds, "[1,[1,2,3],3]");
    check_fits(&bounds, r#"{"a":1,"b":{"a":1,"b":2,"c":3},"c":3}"#);
    let refused = "more than 3 members in one list or object at byte";
    check_within(&bounds, "[1,2,3,4]", &format!("{refused} 7"));
    check_within(&bounds, "[[1,2,3,4]]", &format!("{refused} 8"));
    check_within(&bounds, r#"{"a":1,"b":2,"c":3,"d":4}"#, &format!("{refused} 23"));
    check_within(&Bounds { members: 0, ..bounds }, "[1]", {
        "more than 0 members in one list or object at byte 1"
    });
}

#[test]
fn values_past_their_bound() {
    let bounds = Bounds { nodes: 4, ..Bounds::default() };
    check_fits(&bounds, "[1,2,3]");
    check_fits(&bounds, r#"{"a":{"b":{"c":1}}}"#);
    check_within(&bounds, "[1,2,3,4]", "more than 4 values in all at byte 7");
    check_within(&bounds, "[[[[[]]]]]", "more than 4 values in all at byte 4");
    let many = format!("[{}]", vec!["[]"; 100_000].join(","));
    check(&many, "more than 100000 values in all at byte 299998");
}

#[test]
fn texts_past_their_bound() {
    let bounds = Bounds { bytes: 8, ..Bounds::default() };
    check_fits(&bounds, "[1,2,34]");
    check_within(&bounds, "[1,2,34] ", "more than 8 bytes of text at byte 8");
    // Size is looked at before anything else, even before the encoding.
    check_within(&bounds, [0xff; 9], "more than 8 bytes of text at byte 8");
}
