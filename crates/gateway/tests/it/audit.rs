//! Every decision is on disk before its call leaves, and no value ever is.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};

use rusqlite::Connection;
use sluice_policy::ArgPath;
use sluice_testkit::{Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, json, policy},
    talk::{OPEN, until},
};

/// The upstream looks into the database while it is called, as an auditor would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_recorded_before_its_call_leaves() {
    let database: Arc<OnceLock<PathBuf>> = Arc::default();
    let seen: Arc<Mutex<Vec<(String, String, String)>>> = Arc::default();
    let (looked, noted) = (Arc::clone(&database), Arc::clone(&seen));
    let harness = Harness::on_disk(OPEN, move |request: &Recorded| {
        let method = request.rpc_method().unwrap_or_default();
        let is_judged = ["tools/call", "resources/read", "prompts/get", "completion/complete"]
            .contains(&method.as_str());
        if let Some(database) = looked.get().filter(|_| is_judged) {
            let connection = Connection::open(database).unwrap();
            let sql = "SELECT kind, method FROM audit ORDER BY seq DESC LIMIT 1";
            let newest = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
            let (kind, recorded) = newest.unwrap();
            noted.lock().unwrap().push((method, kind, recorded));
        }
        mcp_server("[]")(request)
    })
    .await;
    database.set(harness.folder.join("sluice.db")).unwrap();
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"}}}"#,
    ];
    for body in bodies {
        harness.post(body).await;
        harness.store.flush().await.unwrap();
    }
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 4);
    for (method, kind, recorded) in seen {
        assert_eq!((kind, recorded), ("decision".to_owned(), method));
    }
}

#[tokio::test]
async fn records_say_what_the_contract_says() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    let session = harness.session(TOKEN).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"b":1,"a":{"c":2}}}}"#;
    harness.post_with(&[("mcp-session-id", &session)], body.as_bytes()).await;
    let records = harness.records().await;
    assert_eq!(records.len(), 2);
    let [decision, outcome] = &records[..] else { panic!("two records") };
    for record in [decision, outcome] {
        for (member, expected) in [
            ("server", "\"notes\""),
            ("grant/id", "\"alice\""),
            ("grant/label", "\"alice\""),
            ("method", "\"tools/call\""),
            ("tool", "\"read\""),
            ("outcome", "\"allow\""),
            ("policy/name", "\"rules\""),
            ("at", "\"2026-01-01T12:00:00.000Z\""),
        ] {
            assert_eq!(at(record, member), expected, "{member}");
        }
        assert_eq!(at(record, "id").len(), 28);
        for member in ["request", "session", "chain", "prev", "hash", "micros", "policy/version"] {
            assert!(!at(record, member).is_empty(), "{member}");
        }
        assert!(!at(record, "session").contains("upstream-session"));
    }
    assert_eq!(at(decision, "request"), at(outcome, "request"));
    assert_eq!(at(decision, "kind"), "\"decision\"");
    assert_eq!(at(outcome, "kind"), "\"outcome\"");
    assert_eq!(at(decision, "arg_keys"), r#"["a","b"]"#);
    assert_eq!(at(decision, "arg_digest").len(), 66);
    assert_eq!(at(outcome, "upstream/status"), "200");
    assert!(!at(outcome, "upstream/micros").is_empty());
    harness.verify().await;
}

/// Whatever is wrong with a value, no record repeats it.
#[tokio::test]
async fn no_argument_value_is_ever_written() {
    const SCHEMA: &str = r#"[{"name":"read","inputSchema":{"type":"object","additionalProperties":false,"properties":{
      "n":{"type":"integer","maximum":3},"e":{"enum":["x"]},"p":{"type":"string","pattern":"^a$","maxLength":3},
      "f":{"type":"string","format":"uri"},"o":{"type":"object","additionalProperties":false},"l":{"type":"array","uniqueItems":true}}}}]"#;
    let rules = [
        OPEN,
        r#"{"version":"1","default":"allow","validate_args":true}"#,
        r#"{"version":"1","default":"deny","tools":{"read":{"approval":true}}}"#,
        r#"{"version":"1","default":"deny","tools":{"read":{"require":[{"conditions":[{"path":"args.n","op":"lt","value":1}]}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"read":{"deny_if":[{"conditions":[{"path":"args.p","op":"regex","value":"s"}]}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"read":{"require":[{"conditions":[{"path":"args.p","op":"path_within","value":["/a"]}]},{"conditions":[{"path":"args.f","op":"url_host_in","value":["a.b"]}]}]}}}"#,
        r#"{"version":"1","default":"deny","tools":{"read":{"limits":[{"counter":"c","window":"day","max":1,"increment_from":"args.n"}]}}}"#,
        r#"{"version":"1","default":"allow","mode":"shadow","validate_args":true}"#,
    ];
    let secret = "s3cr3t-v4lue";
    let arguments = [
        format!(r#"{{"n":"{secret}"}}"#),
        r#"{"n":7316492058173}"#.to_owned(),
        format!(r#"{{"e":"{secret}"}}"#),
        format!(r#"{{"p":"{secret}"}}"#),
        format!(r#"{{"p":"/{secret}/../{secret}"}}"#),
        format!(r#"{{"f":"https://{secret}@{secret}.example/{secret}"}}"#),
        format!(r#"{{"o":{{"x":"{secret}"}}}}"#),
        format!(r#"{{"l":["{secret}","{secret}"]}}"#),
        format!(r#"{{"unknown":"{secret}"}}"#),
    ];
    let harness =
        Harness::on_disk(OPEN, |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call") if request.text().contains("unknown") => Reply::result(
                request,
                r#"{"content":[{"type":"text","text":"s3cr3t-v4lue"}],"isError":true}"#,
            ),
            _ => mcp_server(SCHEMA)(request),
        })
        .await;
    for text in rules {
        let mut configuration = harness.configuration.clone();
        configuration.policies = vec![policy("notes", "rules", text)];
        harness.gateway.apply(&configuration).unwrap();
        for arguments in &arguments {
            assert_eq!(harness.call("read", arguments).await.status, 200);
        }
    }
    assert!(harness.records().await.len() >= rules.len() * arguments.len());
    for file in ["sluice.db", "sluice.db-wal"] {
        let bytes = std::fs::read(harness.folder.join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        for value in [secret, "7316492058173"] {
            assert!(!text.contains(value), "{file}: {value}");
        }
    }
    harness.verify().await;
}

#[tokio::test]
async fn every_outcome_of_a_call_is_recorded() {
    type Answering = fn(&Recorded) -> Reply;
    let failing: [(Answering, &str); 5] = [
        (|request| Reply::result(request, r#"{"content":[],"isError":true}"#), "\"error\""),
        (|request| Reply::result(request, r#"{"content":[]}"#), "\"allow\""),
        (|_| Reply::empty(500), "\"error\""),
        (|_| Reply::json("{"), "\"error\""),
        (
            |request| {
                Reply::json(format!(
                    r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":1,"message":"x"}}}}"#,
                    request.rpc_id()
                ))
            },
            "\"error\"",
        ),
    ];
    for (answer, expected) in failing {
        let harness =
            Harness::start(OPEN, move |request: &Recorded| match request.rpc_method().as_deref() {
                Some("tools/call") => answer(request),
                _ => mcp_server("[]")(request),
            })
            .await;
        harness.call("read", "{}").await;
        let records = harness.records().await;
        assert_eq!(records.len(), 2);
        assert_eq!(at(&records[1], "outcome"), expected);
        assert_eq!(at(&records[0], "request"), at(&records[1], "request"));
    }
}

/// Nobody may fill the log, nor make a line of it that is not one.
#[tokio::test]
async fn names_that_a_client_chose_are_kept_short_and_escaped() {
    let harness = Harness::start(r#"{"version":"1","default":"deny"}"#, mcp_server("[]")).await;
    let long = "x".repeat(100_000);
    let strange = "a\\u001b[31m\\n\\\"b";
    for name in [long.as_str(), strange] {
        let answer = harness.call(name, &format!(r#"{{"{name}":1}}"#)).await;
        assert!(answer.body.len() < 2000);
        assert!(!answer.text().contains('\u{1b}'));
        let method = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}"}}"#);
        assert!(harness.post(&method).await.body.len() < 2000);
        let resource = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{name}"}}}}"#
        );
        let answer = harness.post(&resource).await;
        assert!(answer.body.len() < 2000);
        assert_eq!(at(&json(&answer), "error/code"), "-31010");
    }
    let records = harness.texts().await;
    assert_eq!(records.len(), 6);
    for text in records {
        assert!(text.len() < 4000 && !text.contains(['\n', '\u{1b}']), "{text}");
    }
    until("all is written", || harness.store.health().deferred == 0).await;
    harness.verify().await;
}

#[tokio::test]
async fn values_are_recorded_only_where_the_operator_says() {
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let text = r#"{"version":"1","default":"allow"}"#;
    let configuration = Harness::configuration(&upstream, text);
    let harness = Harness::tuned(upstream, configuration, |settings| {
        let paths = ["args.code", "args.items.*.id", "args.long", "args.none"];
        settings.recorded = paths.into_iter().filter_map(ArgPath::parse).collect();
    })
    .await;
    let long = "x".repeat(5000);
    let arguments = format!(
        r#"{{"code":"1 + 1","secret":"s3same","items":[{{"id":1.0}},{{"id":2}}],"long":"{long}"}}"#
    );
    harness.call("eval", &arguments).await;
    let records = harness.records().await;
    let expected =
        r#"{"args.code":["1 + 1"],"args.items.*.id":[1.0,2],"args.long":["(5002 bytes)"]}"#;
    assert_eq!(at(&records[0], "arg_values"), expected);
    assert!(records.iter().all(|record| !record.text().contains("s3same")));
    assert_eq!(at(&records[1], "arg_values"), "");
}
