//! What holds of every file: adopting and restoring gives back each byte, adopting
//! twice is adopting once, and no secret is shown.

use std::fmt::Write as _;

use proptest::prelude::*;

use crate::machine::{Machine, adopt_all, restore_all};

/// White space and comments, as people and programs leave them.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" ".into()),
        Just("\n  ".into()),
        Just("\r\n\t".into()),
        Just(" // note \"x\": {\n".into()),
        Just("/* { */ ".into()),
    ]
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "[ -~]{0,6}", "\\PC{0,4}"]
        .prop_map(|text| serde_json::Value::from(text).to_string())
}

fn secret() -> impl Strategy<Value = String> {
    Just("\"CANARY\"".to_owned())
}

/// Members of an object with gaps around them, and perhaps a comma too many.
fn object(members: Vec<(String, String, String)>, trailing: bool) -> String {
    let count = members.len();
    let mut text = String::from("{");
    for (index, (gap, key, value)) in members.into_iter().enumerate() {
        let comma = if index + 1 < count || trailing { "," } else { "" };
        let _ = write!(text, "{gap}{key}:{gap}{value}{comma}");
    }
    text + "\n}"
}

fn list(items: Vec<(String, String)>) -> String {
    let items: Vec<_> = items.into_iter().map(|(gap, item)| format!("{gap}{item}")).collect();
    format!("[{}]", items.join(","))
}

/// An entry with its keys in any order.
fn entry() -> impl Strategy<Value = String> {
    let pairs = |key: &'static str, value: BoxedStrategy<String>| {
        (gap(), value).prop_map(move |(gap, value)| (gap, format!("\"{key}\""), value))
    };
    let args = prop::collection::vec((gap(), word()), 0..4).prop_map(list).boxed();
    let env =
        (prop::collection::vec((gap(), "\"[A-Z]{1,5}[0-9]\"", secret()), 0..3), any::<bool>());
    let env = env
        .prop_map(|(mut members, trailing)| {
            members.dedup_by(|a, b| a.1 == b.1);
            object(members.clone(), trailing && !members.is_empty())
        })
        .boxed();
    let command = (
        pairs("command", word().boxed()),
        prop::option::of(pairs("args", args)),
        prop::option::of(pairs("env", env.clone())),
        prop::option::of(pairs("x", word().boxed())),
    )
        .prop_map(|(command, args, env, x)| [Some(command), args, env, x]);
    let url = (
        pairs("url", Just("\"https://h.example/mcp?k=CANARY\"".to_owned()).boxed()),
        prop::option::of(pairs("type", Just("\"http\"".to_owned()).boxed())),
        prop::option::of(pairs("headers", env)),
        prop::option::of(pairs("x", word().boxed())),
    )
        .prop_map(|(url, kind, headers, x)| [Some(url), kind, headers, x]);
    let members = prop_oneof![command, url]
        .prop_map(|members| members.into_iter().flatten().collect::<Vec<_>>());
    (members.prop_shuffle(), any::<bool>())
        .prop_map(|(members, trailing)| object(members, trailing))
}

fn config() -> impl Strategy<Value = String> {
    let servers = prop::collection::vec((gap(), word(), entry()), 0..4);
    (servers, gap(), any::<bool>(), any::<bool>()).prop_map(|(servers, gap, mark, trailing)| {
        let trailing = trailing && !servers.is_empty();
        let servers = object(servers, trailing);
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{gap}\n{{\"other\": 1,{gap}\"mcpServers\":{gap}{servers}}}\n")
    })
}

/// A text of TOML in one of its quotes.
fn toml_word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}".prop_map(|text| format!("\"{text}\"")),
        "[a-z \\\\]{0,6}".prop_map(|text| format!("'{text}'")),
        "\\PC{0,4}"
            .prop_map(|text| serde_json::Value::from(text).to_string().replace('\u{7f}', "")),
    ]
}

/// One server, as a table, with dotted keys or inline.
fn toml_entry() -> impl Strategy<Value = (String, String)> {
    let args = prop::option::of(prop::collection::vec(toml_word(), 0..3));
    let note = prop_oneof![Just(""), Just(" # note = \"x\""), Just("\t")];
    let server = prop_oneof![
        (toml_word(), args).prop_map(|(command, args)| {
            let args = args.map(|args| format!("args = [{}]", args.join(", ")));
            [Some(format!("command = {command}")), args]
        }),
        any::<bool>().prop_map(|has_headers| {
            let headers = has_headers.then(|| "http_headers = { X-Key = \"CANARY\" }".to_owned());
            [Some("url = \"https://h.example/mcp?k=CANARY\"".to_owned()), headers]
        }),
    ];
    (server, note, 0..3_u8, "[a-z]{1,6}").prop_map(|(pairs, note, form, name)| {
        let pairs: Vec<String> = pairs.into_iter().flatten().collect();
        let text = match form {
            0 => {
                let lines: Vec<_> = pairs.iter().map(|pair| format!("  {pair}{note}\n")).collect();
                format!("[mcp_servers.{name}]{note}\n{}\n", lines.concat())
            }
            1 => {
                let lines: Vec<_> =
                    pairs.iter().map(|pair| format!("{name}.{pair}{note}\n")).collect();
                format!("[mcp_servers]\n{}", lines.concat())
            }
            _ => format!("[mcp_servers]\n{name} = {{ {} }}{note}\n", pairs.join(", ")),
        };
        (name, text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn there_and_back_again(text in config()) {
        let file = ".cursor/mcp.json";
        let machine = Machine::with(file, &text);
        let configured = machine.configured();
        prop_assert!(configured.problems.is_empty(), "{:?}", configured.problems);
        let debug = format!("{configured:?}");
        prop_assert!(!debug.contains("CANARY"), "{}", debug);
        let first = adopt_all(&machine);
        let once = machine.text(file);
        let servers = configured.entries().count();
        let repeated = configured.entries().filter(|entry| entry.is_repeated).count();
        prop_assert_eq!(first.len(), repeated, "{:?}", first);
        let again = adopt_all(&machine);
        prop_assert_eq!(again.len(), servers);
        prop_assert_eq!(&machine.text(file), &once);
        prop_assert_eq!(restore_all(&machine), Vec::<String>::new());
        prop_assert_eq!(machine.text(file), text);
    }

    #[test]
    fn tables_there_and_back_again((_, text) in toml_entry(), has_returns in any::<bool>()) {
        let text = if has_returns { text.replace('\n', "\r\n") } else { text };
        let file = ".codex/config.toml";
        let machine = Machine::with(file, &text);
        let configured = machine.configured();
        prop_assert!(configured.problems.is_empty(), "{:?}", configured.problems);
        prop_assert_eq!(adopt_all(&machine), Vec::<String>::new());
        let once = machine.text(file);
        prop_assert_eq!(adopt_all(&machine).len(), 1);
        prop_assert_eq!(&machine.text(file), &once);
        // Somebody adds a table meanwhile.
        let more = "\n[projects.x]\ntrust_level = \"trusted\"\n";
        machine.write(file, format!("{once}{more}").as_bytes());
        prop_assert_eq!(restore_all(&machine), Vec::<String>::new());
        prop_assert_eq!(machine.text(file), format!("{text}{more}"));
    }
}
