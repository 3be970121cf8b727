//! Tasks belong to the grant whose call began them.

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{End, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, server},
    talk::{OPEN, hear, mirrors, modern_body, modern_server},
};

const BOB: &str = "sg_test_token_of_bob";

fn working(request: &Recorded) -> Reply {
    match request.rpc_method().as_deref() {
        Some("tools/call") => {
            let task = if request.text().contains("second") { "t-2" } else { "t-1" };
            Reply::result(
                request,
                &format!(r#"{{"task":{{"taskId":"{task}","status":"working"}}}}"#),
            )
        }
        Some("tasks/get" | "tasks/cancel") => {
            Reply::result(request, r#"{"taskId":"t-1","status":"working"}"#)
        }
        Some("tasks/result") => Reply::result(
            request,
            r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}}}"#,
        ),
        Some("tasks/list") => Reply::result(
            request,
            r#"{"tasks":[{"taskId":"t-1"},{"taskId":"t-2"},{"taskId":"t-of-nobody"}]}"#,
        ),
        _ => mcp_server("[]")(request),
    }
}

async fn start(rules: &str) -> Harness {
    let upstream = Upstream::start(working).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url())],
        policies: vec![policy("notes", "rules", rules)],
        grants: vec![
            (TokenHash::of(TOKEN), grant("alice", &["notes"], "rules")),
            (TokenHash::of(BOB), grant("bob", &["notes"], "rules")),
        ],
    };
    Harness::with(upstream, configuration).await
}

async fn send(
    harness: &Harness,
    token: &str,
    method: &str,
    params: &str,
) -> sluice_testkit::Answer {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#);
    let token = format!("Bearer {token}");
    let headers = [("authorization", token.as_str()), ("mcp-protocol-version", "2025-11-25")];
    harness.post_with(&headers, body.as_bytes()).await
}

#[tokio::test]
async fn nobody_reaches_the_task_of_another() {
    for rules in [OPEN, r#"{"version":"1","default":"allow","mode":"shadow"}"#] {
        let harness = start(rules).await;
        let begun = json(&send(&harness, TOKEN, "tools/call", r#""name":"read","task":{}"#).await);
        let task = at(&begun, "result/task/taskId");
        assert!(task.len() > 30 && !task.contains("t-1"), "{task}");
        let of_alice = format!(r#""taskId":{task}"#);
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let answer = send(&harness, TOKEN, method, &of_alice).await;
            assert_eq!(at(&json(&answer), "error"), "", "{method}: {}", answer.text());
            assert!(!answer.text().contains("\"t-1\""), "{}", answer.text());
            let sent = harness.upstream.bodies_of(method);
            assert_eq!(sent.len(), 1);
            assert!(sent[0].contains(r#""taskId":"t-1""#));
            for (token, params) in [
                (BOB, of_alice.as_str()),
                (BOB, r#""taskId":"t-1""#),
                (TOKEN, r#""taskId":"t-1""#),
                (TOKEN, r#""taskId":"""#),
                (TOKEN, r#""taskId":1"#),
                (TOKEN, ""),
            ] {
                let answer = send(&harness, token, method, params).await;
                let code = at(&json(&answer), "error/code");
                assert!(
                    ["-31010", "-32602"].contains(&code.as_str()),
                    "{method} {params}: {}",
                    answer.text()
                );
            }
            assert_eq!(harness.upstream.bodies_of(method).len(), 1);
        }
    }
}

#[tokio::test]
async fn a_list_shows_only_tasks_of_the_grant() {
    let harness = start(OPEN).await;
    let first = at(
        &json(&send(&harness, TOKEN, "tools/call", r#""name":"read","task":{}"#).await),
        "result/task/taskId",
    );
    let second = at(
        &json(&send(&harness, BOB, "tools/call", r#""name":"second","task":{}"#).await),
        "result/task/taskId",
    );
    for (token, own) in [(TOKEN, first), (BOB, second)] {
        let answer = send(&harness, token, "tasks/list", "").await;
        assert_eq!(at(&json(&answer), "result/tasks"), format!(r#"[{{"taskId":{own}}}]"#));
    }
}

#[tokio::test]
async fn tasks_belong_to_revisions_that_have_them() {
    let harness = start(OPEN).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}"#;
    for version in ["2025-06-18", "2025-03-26"] {
        let answer = harness.post_with(&[("mcp-protocol-version", version)], body.as_bytes()).await;
        assert_eq!(at(&json(&answer), "error/code"), "-32601");
    }
    assert!(harness.upstream.requests().is_empty());
}

const KNOWS_TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A modern server with or without tasks.
fn modern(has_tasks: bool) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    move |request| match request.rpc_method().as_deref() {
        Some("server/discover") if has_tasks => Reply::result(
            request,
            &format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{KNOWS_TASKS}}}"#
            ),
        ),
        Some("tools/call") if has_tasks => {
            Reply::result(request, r#"{"resultType":"task","taskId":"t-1","status":"working"}"#)
        }
        Some("tasks/get" | "tasks/update" | "tasks/cancel") => {
            Reply::result(request, r#"{"resultType":"complete","taskId":"t-1","status":"working"}"#)
        }
        _ => modern_server("[]")(request),
    }
}

/// Asks for a task in the modern era; the status and the code of the error.
async fn ask(
    harness: &Harness,
    method: &str,
    task: &str,
    header: &str,
    can: &str,
) -> (u16, String) {
    let params = format!(r#""taskId":"{task}","inputResponses":{{}}"#);
    let body = modern_body(method, &params, can);
    let target = (!header.is_empty()).then_some(header);
    let answer = harness.post_with(&mirrors(method, target), body.as_bytes()).await;
    assert!(!answer.text().contains("\"t-1\""), "{}", answer.text());
    (answer.status, at(&json(&answer), "error/code"))
}

#[tokio::test]
async fn a_modern_server_hears_its_own_id_of_a_task_in_body_and_header() {
    let harness = Harness::start(OPEN, modern(true)).await;
    let body = modern_body("tools/call", r#""name":"read""#, KNOWS_TASKS);
    let begun = harness.post_with(&mirrors("tools/call", Some("read")), body.as_bytes()).await;
    let task = at(&json(&begun), "result/taskId").trim_matches('"').to_owned();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let asked = ask(&harness, method, &task, &task, KNOWS_TASKS).await;
        assert_eq!(asked, (200, String::new()), "{method}");
        for header in ["", "t-1", "other"] {
            let asked = ask(&harness, method, &task, header, KNOWS_TASKS).await;
            assert_eq!(asked, (400, "-32020".to_owned()), "{method} {header}");
        }
        let recorded = harness.upstream.requests();
        let sent: Vec<_> = recorded
            .iter()
            .filter(|request| request.rpc_method().as_deref() == Some(method))
            .map(|request| {
                (request.header("mcp-name"), request.text().contains(r#""taskId":"t-1""#))
            })
            .collect();
        assert_eq!(sent, [(Some("t-1"), true)], "{method}");
    }
}

/// With the id that the client knows, whether it is allowed or not.
#[tokio::test]
async fn requests_about_tasks_are_recorded_with_their_task() {
    let harness = start(OPEN).await;
    let begun = send(&harness, TOKEN, "tools/call", r#""name":"read","task":{}"#).await;
    let task = at(&json(&begun), "result/task/taskId");
    assert!(task.len() > 20, "{}", begun.text());
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for token in [TOKEN, BOB] {
            send(&harness, token, method, &format!(r#""taskId":{task}"#)).await;
        }
        let records = harness.records().await;
        let of_task: Vec<_> = records
            .iter()
            .filter(|record| at(record, "method") == format!("\"{method}\""))
            .map(|record| ["grant/id", "kind", "outcome", "target"].map(|name| at(record, name)))
            .collect();
        let expected = |grant: &str, kind: &str, outcome: &str| {
            let [grant, kind, outcome] = [grant, kind, outcome].map(|text| format!("\"{text}\""));
            [grant, kind, outcome, task.clone()]
        };
        for kind in ["decision", "outcome"] {
            assert!(of_task.contains(&expected("alice", kind, "allow")), "{method}: {of_task:?}");
        }
        assert!(of_task.contains(&expected("bob", "decision", "deny")), "{method}: {of_task:?}");
    }
}

/// What is said of the task of another is what a server says of none at all.
#[tokio::test]
async fn a_modern_task_that_is_not_ones_own_is_none_that_the_server_has() {
    for (has_tasks, can, expected) in [
        (true, KNOWS_TASKS, (200, "-32602")),
        (true, "{}", (400, "-32021")),
        (false, KNOWS_TASKS, (404, "-32601")),
        (false, "{}", (404, "-32601")),
    ] {
        let harness = Harness::start(OPEN, modern(has_tasks)).await;
        harness.modern("server/discover", None, "").await;
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let (status, code) = ask(&harness, method, "t-2", "t-2", can).await;
            assert_eq!((status, code.as_str()), expected, "{method} {can}");
            assert!(harness.upstream.bodies_of(method).is_empty());
        }
    }
}

/// A server repeats what it will tell of, by its own ids.
#[tokio::test]
async fn a_subscriber_hears_of_tasks_by_the_ids_it_was_given() {
    let harness = Harness::start(OPEN, |request: &Recorded| match request.rpc_method().as_deref() {
        Some("subscriptions/listen") => Reply::events(
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"notifications\":{\"taskIds\":[\"t-1\",\"of-another\"],\"TaskIds\":[\"t-1\"],\"toolsListChanged\":true}}}\n\n",
        )
        .ending(End::Never),
        _ => modern(true)(request),
    })
    .await;
    let body = modern_body("tools/call", r#""name":"read""#, KNOWS_TASKS);
    let begun = harness.post_with(&mirrors("tools/call", Some("read")), body.as_bytes()).await;
    let task = at(&json(&begun), "result/taskId").trim_matches('"').to_owned();
    let wish =
        format!(r#""notifications":{{"taskIds":["{task}","foreign"],"toolsListChanged":true}}"#);
    let body = modern_body("subscriptions/listen", &wish, KNOWS_TASKS);
    let token = format!("Bearer {TOKEN}");
    let mut headers = mirrors("subscriptions/listen", None);
    headers.push(("authorization", &token));
    let mut client = harness.begun("POST", &headers, body.as_bytes()).await;
    client.head().await.unwrap().unwrap();
    let told = hear(&mut client, "acknowledged").await;
    let expected = format!(r#""notifications":{{"taskIds":["{task}"],"toolsListChanged":true}}"#);
    assert!(told.contains(&expected), "{told}");
    let sent = harness.upstream.bodies_of("subscriptions/listen").pop().unwrap();
    assert!(sent.contains(r#""taskIds":["t-1"]"#), "{sent}");
}

/// A client that has asked for a task takes no other result, and shows an error.
#[tokio::test]
async fn the_denial_of_a_task_is_an_error_with_the_reason() {
    let rules = r#"{"version":"1","default":"deny","tools":{
        "write":{"action":"deny","reason":"No writing."},
        "send":{"action":"approve","reason":"Ask first."}}}"#;
    let harness = start(rules).await;
    for (tool, rule, expected) in [
        ("write", "/tools/write/deny_if", "[POLICY DENIED] No writing."),
        ("other", "(not available)", "[POLICY DENIED] tool `other` is not available"),
        ("send", "/tools/send/approval", "[APPROVAL REQUIRED] Ask first. The call was not sent. "),
    ] {
        // Without a task it is a result.
        let params = format!(r#""name":"{tool}","arguments":{{}}"#);
        let plain = json(&send(&harness, TOKEN, "tools/call", &params).await);
        assert_eq!(at(&plain, "result/isError"), "true", "{plain:?}");
        let params = format!(r#"{params},"task":{{"ttl":1000}}"#);
        let answer = send(&harness, TOKEN, "tools/call", &params).await;
        let said = json(&answer);
        assert_eq!((answer.status, at(&said, "error/code")), (200, "-31010".into()), "{said:?}");
        let message = at(&said, "error/message");
        assert!(message.trim_start_matches('"').starts_with(expected), "{message}");
        assert_eq!(message, at(&plain, "result/content/0/text"));
        assert_eq!(at(&said, "error/data/rule"), format!("\"{rule}\""));
        for place in ["outcome", "approval"] {
            let (shown, plain) = (
                at(&said, &format!("error/data/{place}")),
                at(&plain, &format!("result/_meta/sluicegate~decision/{place}")),
            );
            assert_eq!(shown, plain);
        }
    }
    assert!(harness.calls().is_empty());
    let records = harness.records().await;
    let denied = records.iter().filter(|record| at(record, "tool") == "\"write\"");
    assert_eq!(denied.map(|record| at(record, "outcome")).collect::<Vec<_>>(), ["\"deny\""; 2]);
}

/// In the modern era a call may be answered with a result although the client
/// knows tasks, so a denial is one.
#[tokio::test]
async fn the_denial_of_a_modern_call_is_a_result_whether_or_not_it_knows_tasks() {
    let rules =
        r#"{"version":"1","default":"allow","tools":{"read":{"action":"deny","reason":"No."}}}"#;
    let harness = Harness::start(rules, modern_server(r#"[{"name":"read"}]"#)).await;
    let capabilities = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let body = modern_body("tools/call", r#""name":"read","task":{}"#, capabilities);
    let answer = harness.post_with(&mirrors("tools/call", Some("read")), body.as_bytes()).await;
    let said = json(&answer);
    assert_eq!(at(&said, "result/resultType"), "\"complete\"", "{said:?}");
    assert_eq!(at(&said, "result/content/0/text"), "\"[POLICY DENIED] No.\"");
}
