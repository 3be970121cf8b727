//! Random damage to calls: whatever still reaches the upstream is, by any
//! reader, not a call that the policy forbids.

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use sluice_testkit::mcp_server;
use tokio::runtime::Runtime;

use crate::harness::Harness;

const POLICY: &str = r#"{"version":"1","default":"allow","hide":["danger"],
  "tools":{"pay":{"deny_if":[{"conditions":[{"path":"args.amount","op":"gt","value":100}]}]}}}"#;
const TOOLS: &str = r#"[{"name":"pay"},{"name":"danger"},{"name":"read"}]"#;

/// A member of an object, as it may be written.
#[derive(Debug, Clone)]
struct Member {
    key: String,
    value: Text,
}

#[derive(Debug, Clone)]
enum Text {
    Scalar(String),
    Object(Vec<Member>),
}

fn written(members: &[Member], blank: &str) -> String {
    let parts: Vec<_> = members
        .iter()
        .map(|member| {
            let value = match &member.value {
                Text::Scalar(text) => text.clone(),
                Text::Object(members) => written(members, blank),
            };
            format!("{blank}\"{}\"{blank}:{blank}{value}", member.key)
        })
        .collect();
    format!("{{{}{blank}}}", parts.join(","))
}

/// A spelling of a name that is the name, or that somebody takes for it.
fn spelling(name: &'static str) -> impl Strategy<Value = String> {
    let letters = name.chars().count();
    prop_oneof![
        80 => Just(name.to_owned()),
        1 => (0..letters).prop_map(move |place| changed(name, place, |c| c.to_uppercase().collect())),
        1 => (0..letters).prop_map(move |place| changed(name, place, |c| format!("\\u{:04x}", u32::from(c)))),
        1 => (0..letters).prop_map(move |place| changed(name, place, |c| format!("\\u0000{c}"))),
        1 => (0..letters).prop_map(move |place| changed(name, place, |c| if c == 's' { "\u{17f}".into() } else { c.to_uppercase().collect() })),
        1 => prop_oneof![Just(" "), Just("\\t"), Just("\\u00a0"), Just("\\u0000"), Just("\\u0000x"), Just("\\ufeff")].prop_map(move |end| format!("{name}{end}")),
        1 => prop_oneof![Just(" "), Just("\\n"), Just("\\u0000"), Just("\u{feff}")].prop_map(move |start| format!("{start}{name}")),
    ]
}

fn changed(name: &str, place: usize, change: impl Fn(char) -> String) -> String {
    name.chars()
        .enumerate()
        .map(|(at, c)| if at == place { change(c) } else { c.to_string() })
        .collect()
}

fn tool() -> impl Strategy<Value = Text> {
    let name =
        prop_oneof![6 => spelling("pay"), 2 => spelling("danger"), 1 => Just("read".to_owned())];
    prop_oneof![
        20 => name.prop_map(|name| Text::Scalar(format!("\"{name}\""))),
        1 => Just(Text::Scalar("null".into())),
        1 => Just(Text::Scalar("[\"danger\"]".into())),
    ]
}

fn amount() -> impl Strategy<Value = Text> {
    let spellings = [
        "1",
        "100",
        "100.0",
        "1e2",
        "100.0000000000000000000001",
        "101",
        "1000",
        "1E3",
        "10e1",
        "1001e-1",
        "0.1e4",
        "1e400",
        "\"1000\"",
        "[1000]",
        "null",
        "-1",
        "100e0",
        "1.0e+2",
        "1000000000000000000000000000000",
    ];
    proptest::sample::select(spellings.to_vec()).prop_map(|text| Text::Scalar(text.into()))
}

fn member(
    key: impl Strategy<Value = String>,
    value: impl Strategy<Value = Text>,
) -> impl Strategy<Value = Member> {
    (key, value).prop_map(|(key, value)| Member { key, value })
}

/// Some of these, in any order, some of them twice.
fn mixed<S: Strategy<Value = Member> + 'static>(
    members: Vec<S>,
) -> impl Strategy<Value = Vec<Member>> {
    (members, proptest::collection::vec(any::<proptest::sample::Index>(), 0..4), any::<u8>())
        .prop_map(|(members, order, odd)| {
            let mut members = members;
            for index in &order {
                let last = members.len() - 1;
                members.swap(index.index(last + 1), last);
            }
            if odd < 10 {
                let twice = members[usize::from(odd) % members.len()].clone();
                members.push(twice);
            } else if odd < 16 {
                members.remove(usize::from(odd) % members.len());
            }
            members
        })
}

fn call() -> impl Strategy<Value = String> {
    let scalar = |text: &'static str| Just(Text::Scalar(text.to_owned()));
    let arguments = mixed(vec![
        member(spelling("amount"), amount()).boxed(),
        member(Just("note".to_owned()), scalar("\"x\"")).boxed(),
        member(prop_oneof![4 => Just("other".to_owned()), 1 => spelling("amount")], amount())
            .boxed(),
    ])
    .prop_map(Text::Object);
    let params = mixed(vec![
        member(spelling("name"), tool()).boxed(),
        member(spelling("arguments"), arguments).boxed(),
        member(prop_oneof![6 => Just("extra".to_owned()), 1 => spelling("name")], tool()).boxed(),
    ])
    .prop_map(Text::Object);
    let params = params.boxed();
    let hidden = prop_oneof![
        6 => member(Just("extra".to_owned()), scalar("1")),
        1 => member(spelling("params"), params.clone()),
    ]
    .boxed();
    let message = mixed(vec![
        member(spelling("jsonrpc"), scalar("\"2.0\"")).boxed(),
        member(
            spelling("id"),
            prop_oneof![8 => scalar("1"), 1 => scalar("null"), 1 => scalar("\"x\"")],
        )
        .boxed(),
        member(
            spelling("method"),
            prop_oneof![8 => spelling("tools/call"), 1 => Just("ping".to_owned())]
                .prop_map(|text| Text::Scalar(format!("\"{text}\""))),
        )
        .boxed(),
        member(spelling("params"), params).boxed(),
        hidden,
    ]);
    let blank = proptest::sample::select(vec![
        "", "", "", "", "", "", "", " ", " ", "\n", "\n", "\t \r\n", "\0", "\u{feff}", "/**/",
    ]);
    (message, blank, any::<u8>()).prop_map(|(message, blank, odd)| {
        let text = written(&message, blank);
        match odd {
            0..4 => format!("[{text}]"),
            4..8 => format!("{text}{text}"),
            8..12 => text.replacen(':', "", 1),
            _ => text,
        }
    })
}

/// A reader that believes anything: every value of every key, whatever its case,
/// blanks and NULs, of every object in a text, however often it stands there.
fn lenient(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut last: Option<String> = None;
    let mut key: Option<String> = None;
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.next() {
        match first {
            '"' => {
                let inner = decoded(&string(&mut rest));
                match key.take() {
                    Some(key) => found.push((key, inner)),
                    None => last = Some(inner),
                }
            }
            ':' => key = last.take().map(|name| plain(&name)),
            '0'..='9' | '-' => {
                let mut number = first.to_string();
                while let Some(next) =
                    rest.next_if(|c| matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
                {
                    number.push(next);
                }
                found.extend(key.take().map(|key| (key, number)));
            }
            ',' | '{' | '}' => key = None,
            _ => {}
        }
    }
    found
}

/// The rest of a string, as it is written.
fn string(rest: &mut impl Iterator<Item = char>) -> String {
    let mut raw = String::new();
    while let Some(next) = rest.next() {
        match next {
            '"' => break,
            '\\' => {
                raw.push(next);
                raw.extend(rest.next());
            }
            _ => raw.push(next),
        }
    }
    raw
}

/// A string's text, by a reader that takes whatever it can.
fn decoded(raw: &str) -> String {
    serde_json::from_str::<String>(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.to_owned())
}

/// A name without case, blanks, and anything from the first NUL on, or the NULs.
fn plain(name: &str) -> String {
    let shown: String = name.chars().filter(|c| *c != '\0' && *c != '\u{feff}').collect();
    shown.trim().to_lowercase().replace('\u{17f}', "s")
}

/// A number by a reader that knows only floats; text counts as what it says.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// Whether somebody could read a forbidden call in a text.
fn is_forbidden(text: &str) -> bool {
    let strict: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let method = |value: &serde_json::Value| value["method"] == "tools/call";
    let named = |value: &serde_json::Value| value["params"]["name"].clone();
    // Of two members with one name this reader keeps the last.
    let by_last = strict.as_ref().is_some_and(|value| {
        let amount = value["params"]["arguments"]["amount"].to_string();
        method(value) && (named(value) == "danger" || (named(value) == "pay" && exceeds(&amount)))
    });
    // The names of tools are exact; keys are not, to this one.
    let all = lenient(text);
    let has =
        |key: &str, value: &str| all.iter().any(|(found, text)| found == key && text == value);
    let any_method = has("method", "tools/call");
    let any_amount = all.iter().any(|(key, text)| key == "amount" && exceeds(text));
    let by_any = any_method && (has("name", "danger") || (has("name", "pay") && any_amount));
    by_last || by_any
}

/// Whether a number's text means more than a hundred.
fn exceeds(text: &str) -> bool {
    let is_more = number(text).is_some_and(|number| number > 100.0);
    is_more || text == "100.0000000000000000000001"
}

#[test]
fn the_readers_know_forbidden_calls() {
    let call = |params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
    };
    for forbidden in [
        r#"{"name":"danger"}"#,
        r#"{"name":"read","name":"danger"}"#,
        r#"{"name":"danger","name":"read"}"#,
        r#"{"Name ":"danger"}"#,
        r#"{"n\u0061me\u0000":"d\u0061nger"}"#,
        r#"{"name":"pay","arguments":{"amount":101}}"#,
        r#"{"name":"pay","arguments":{"amount":1,"AMOUNT":1e3}}"#,
        r#"{"name":"pay","arguments":{"amount":1000,"amount":1}}"#,
    ] {
        assert!(is_forbidden(&call(forbidden)), "{forbidden}");
    }
    for allowed in [
        r#"{"name":"pay","arguments":{"amount":100.0,"note":"danger"}}"#,
        r#"{"name":"read"}"#,
        r#"{"name":"Danger"}"#,
    ] {
        assert!(!is_forbidden(&call(allowed)), "{allowed}");
    }
}

#[test]
fn no_forbidden_call_reaches_the_server() {
    let runtime = Runtime::new().unwrap();
    let harness = runtime.block_on(Harness::start(POLICY, mcp_server(TOOLS)));
    let config = Config { cases: 800, failure_persistence: None, ..Config::default() };
    let checked = TestRunner::new(config).run(&call(), |body| {
        let before = harness.upstream.requests().len();
        runtime.block_on(harness.post_with(&[], body.as_bytes()));
        for request in harness.upstream.requests().iter().skip(before) {
            prop_assert!(!is_forbidden(&request.text()), "{}", request.text());
        }
        Ok(())
    });
    assert_eq!(checked, Ok(()));
    // A gateway that lets nothing through would pass as well.
    assert!(harness.calls().len() > 10, "{:?}", harness.calls());
}
