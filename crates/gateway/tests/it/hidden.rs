//! A hidden tool cannot be told from one that does not exist, whatever else is wrong with
//! the message or with the server; and what is denied is denied before headers are compared.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use sluice_testkit::{Answer, End, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, at, json, request, server},
    talk::{mirrors, modern_body, modern_server},
};

const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;

/// Two tools with an argument that a header repeats; `drop` is to be hidden.
const TOOLS: &str = r#"[{"name":"drop","inputSchema":{"type":"object","properties":{
  "region":{"type":"string","x-mcp-header":"Region"}}}},
  {"name":"read","inputSchema":{"type":"object","properties":{
  "region":{"type":"string","x-mcp-header":"Region"}}}}]"#;

/// An answer without what differs from call to call: the decision's id and the tool's name.
fn blurred(answer: &Answer, name: &str) -> (u16, String) {
    let id = at(&json(answer), "result/_meta/sluicegate~decision/id");
    assert_eq!(id.len(), 28, "{}", answer.text());
    (answer.status, answer.text().replace(id.trim_matches('"'), "ID").replace(name, "NAME"))
}

#[tokio::test]
async fn headers_are_compared_only_after_the_decision() {
    let harness = Harness::start(HIDING, modern_server(TOOLS)).await;
    let full = mirrors("tools/call", Some("NAME"));
    // A header of the message, or the one of the argument, is wrong or missing.
    let faults: [Vec<(&str, &str)>; 5] = [
        full.clone(),
        [&full[..], &[("mcp-param-region", "us")]].concat(),
        full[..2].to_vec(),
        [&full[..1], &full[2..]].concat(),
        [&full[..1], &[("mcp-method", "tools/list"), ("mcp-name", "other")]].concat(),
    ];
    for headers in faults {
        let mut seen = Vec::new();
        for name in ["drop", "none", "read"] {
            let headers: Vec<_> = headers
                .iter()
                .map(|(key, value)| (*key, if *value == "NAME" { name } else { value }))
                .collect();
            let params = format!(r#""name":"{name}","arguments":{{"region":"eu"}}"#);
            let body = modern_body("tools/call", &params, "{}");
            let before = harness.records().await.len();
            let answer = harness.post_with(&headers, body.as_bytes()).await;
            let recorded = harness.records().await.len() - before;
            if name == "read" {
                assert_eq!(at(&json(&answer), "error/code"), "-32020", "{headers:?}");
                assert_eq!(recorded, 0);
            } else {
                seen.push(blurred(&answer, name));
                assert_eq!(recorded, 1, "{headers:?} {name}");
            }
        }
        assert_eq!(seen[0], seen[1], "{headers:?}");
        assert!(seen[0].1.contains("is not available"), "{}", seen[0].1);
    }
    assert!(harness.calls().is_empty());
    let records = harness.records().await;
    let shapes: Vec<String> = records.iter().map(|record| at(record, "arg_keys")).collect();
    assert_eq!(shapes, vec![r#"["region"]"#; shapes.len()]);
}

/// The same where one URL serves all servers, under their prefixed names.
#[tokio::test]
async fn the_same_holds_for_all_servers_at_once() {
    let harness = Harness::start(HIDING, modern_server(TOOLS)).await;
    let full = mirrors("tools/call", Some("NAME"));
    let own_name = [&full[..2], &[("mcp-name", "OWN")]].concat();
    for headers in [full.clone(), full[..2].to_vec(), own_name] {
        let mut seen = Vec::new();
        for own in ["drop", "none", "read"] {
            let name = format!("notes__{own}");
            let headers: Vec<_> = headers
                .iter()
                .map(|(key, value)| match *value {
                    "NAME" => (*key, &*name),
                    "OWN" => (*key, own),
                    value => (*key, value),
                })
                .collect();
            let params = format!(r#""name":"{name}","arguments":{{"region":"eu"}}"#);
            let body = modern_body("tools/call", &params, "{}");
            let bytes = request("POST", "/mcp", harness.address, &headers, body.as_bytes());
            let before = harness.records().await.len();
            let answer = harness.raw(&bytes).await;
            let recorded = harness.records().await.len() - before;
            if own == "read" {
                assert_eq!(at(&json(&answer), "error/code"), "-32020", "{headers:?}");
                assert_eq!(recorded, 0);
            } else {
                seen.push(blurred(&answer, own));
                assert_eq!(recorded, 1, "{headers:?} {name}");
            }
        }
        assert_eq!(seen[0], seen[1], "{headers:?}");
    }
    assert!(harness.calls().is_empty());
}

/// Resources, prompts, completions and tasks are doors to the same server.
#[tokio::test]
async fn other_doors_deny_before_they_compare_headers() {
    const RULES: &str = r#"{"version":"1","default":"deny","resources":{"allow":["file:///open/*"]},"prompts":{"allow":["open-*"]}}"#;
    let harness = Harness::start(RULES, modern_server(TOOLS)).await;
    for (method, params, code) in [
        ("resources/read", r#""uri":"file:///secret""#, "-31010"),
        ("prompts/get", r#""name":"secret""#, "-31010"),
        ("completion/complete", r#""ref":{"type":"ref/prompt","name":"secret"}"#, "-31010"),
        ("completion/complete", r#""ref":{"type":"ref/resource","uri":"file:///b"}"#, "-31010"),
        ("tasks/get", r#""taskId":"of-another""#, "-32021"),
        ("server/hidden", r#""name":"x""#, "-32601"),
    ] {
        let body = modern_body(method, params, "{}");
        for path in ["/mcp/notes", "/mcp"] {
            let headers = &mirrors("tools/list", Some("other"))[..];
            let bytes = request("POST", path, harness.address, headers, body.as_bytes());
            let before = harness.records().await.len();
            let answer = harness.raw(&bytes).await;
            let found = at(&json(&answer), "error/code");
            // For all servers, a task of no server is denied like any other target.
            assert!(
                found == code || (path == "/mcp" && method == "tasks/get" && found == "-31010"),
                "{method} {path}: {}",
                answer.text()
            );
            assert_eq!(harness.records().await.len(), before + 1, "{method} {path}");
        }
        assert!(harness.upstream.bodies_of(method).is_empty());
    }
    // What is allowed is compared, and not recorded if it disagrees.
    let before = harness.records().await.len();
    for (method, params) in [
        ("resources/read", r#""uri":"file:///open/a""#),
        ("prompts/get", r#""name":"open-a""#),
        ("tools/list", ""),
        ("subscriptions/listen", r#""notifications":{}"#),
        ("resources/list", ""),
    ] {
        for path in ["/mcp/notes", "/mcp"] {
            let prefix = if path == "/mcp" { "\"notes__open" } else { "\"open" };
            let body = modern_body(method, &params.replace("\"open", prefix), "{}");
            let headers = &mirrors("ping", Some("other"))[..];
            let bytes = request("POST", path, harness.address, headers, body.as_bytes());
            let answer = harness.raw(&bytes).await;
            assert_eq!(at(&json(&answer), "error/code"), "-32020", "{method} {path}");
            assert!(harness.upstream.bodies_of(method).len() <= 1, "{method} {path}");
        }
    }
    assert_eq!(harness.records().await.len(), before);
}

/// In shadow mode, what would be denied is sent, so its headers must agree.
#[tokio::test]
async fn shadow_mode_compares_the_headers_of_what_it_sends() {
    const SHADOW: &str =
        r#"{"version":"1","default":"deny","mode":"shadow","tools":{"read":{"action":"deny"}}}"#;
    let harness = Harness::start(SHADOW, modern_server(TOOLS)).await;
    let params = r#""name":"read","arguments":{"region":"eu"}"#;
    let body = modern_body("tools/call", params, "{}");
    let headers = mirrors("tools/call", Some("read"));
    let answer = harness.post_with(&headers, body.as_bytes()).await;
    assert_eq!(at(&json(&answer), "error/code"), "-32020", "{}", answer.text());
    assert!(harness.calls().is_empty());
}

/// A server whose list of tools is answered at once, and from then on never.
fn lists_once(tools: &'static str, lists: &'static AtomicUsize) -> impl Fn(&Recorded) -> Reply {
    move |request| match request.rpc_method().as_deref() {
        Some("tools/list") if lists.fetch_add(1, Ordering::Relaxed) > 0 => {
            Reply::events("").ending(End::Never)
        }
        _ => modern_server(tools)(request),
    }
}

/// A call of an unknown tool never waits for the server, whatever the server does.
#[tokio::test]
async fn an_unknown_tool_is_refused_without_asking_the_server_first() {
    static LISTS: AtomicUsize = AtomicUsize::new(0);
    let upstream = Upstream::start(lists_once(TOOLS, &LISTS)).await.unwrap();
    let mut notes = server("notes", &upstream.url());
    notes.timeout = Duration::from_mins(10);
    let mut configuration = Harness::configuration(&upstream, HIDING);
    configuration.servers = vec![notes];
    let harness = Harness::with(upstream, configuration).await;
    let hidden = harness.modern_call("drop", "{}").await;
    assert_eq!(LISTS.load(Ordering::Relaxed), 1);
    // Until the list is so old that it is asked for again, which is never answered.
    while LISTS.load(Ordering::Relaxed) < 2 {
        let asked = tokio::time::timeout(Duration::from_mins(1), harness.modern_call("none", "{}"));
        let unknown = asked.await.expect("an answer that does not wait for the server");
        assert_eq!(blurred(&unknown, "none"), blurred(&hidden, "drop"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let unknown = harness.modern_call("none", "{}").await;
    assert_eq!(blurred(&unknown, "none"), blurred(&hidden, "drop"));
    assert!(harness.calls().is_empty());
}

/// A tool that the server has gained meanwhile is known at the second attempt at the latest.
#[tokio::test]
async fn a_new_tool_is_learnt_in_the_background() {
    static HAS_MORE: AtomicBool = AtomicBool::new(false);
    const MORE: &str =
        r#"[{"name":"read","inputSchema":{}},{"name":"added","inputSchema":{"type":"object"}}]"#;
    let harness = Harness::start(HIDING, |request: &Recorded| {
        let tools = if HAS_MORE.load(Ordering::Relaxed) { MORE } else { TOOLS };
        mcp_server(tools)(request)
    })
    .await;
    let denied = harness.call("added", "{}").await;
    assert!(denied.text().contains("is not available"), "{}", denied.text());
    HAS_MORE.store(true, Ordering::Relaxed);
    for _ in 0..1500 {
        if !harness.call("added", "{}").await.text().contains("is not available") {
            assert_eq!(harness.calls().len(), 1);
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the new tool was never learnt");
}

/// Without the server's list, nobody knows what a name means to the server.
#[tokio::test]
async fn without_a_list_a_policy_that_hides_forwards_nothing() {
    fn listless(request: &Recorded) -> Reply {
        match request.rpc_method().as_deref() {
            Some("tools/list") => Reply::new(500, "text/plain", "no"),
            _ => mcp_server("[]")(request),
        }
    }
    const BY_RULE: &str =
        r#"{"version":"1","default":"allow","tools":{"drop":{"action":"hide"},"none":{}}}"#;
    const SHADOW: &str = r#"{"version":"1","default":"allow","mode":"shadow","hide":["drop"]}"#;
    for rules in [HIDING, BY_RULE, SHADOW] {
        let harness = Harness::start(rules, listless).await;
        let hidden = blurred(&harness.call("drop", "{}").await, "drop");
        let unknown = blurred(&harness.call("none", "{}").await, "none");
        assert_eq!(hidden, unknown, "{rules}");
        assert!(harness.calls().is_empty(), "{rules}");
        let records = harness.records().await;
        let rules: Vec<String> = records.iter().map(|record| at(record, "rule")).collect();
        assert_eq!(rules, [r#""(hidden)""#, r#""(unknown tool)""#]);
    }
    // A policy that hides nothing does not need the list.
    let open = Harness::start(r#"{"version":"1","default":"allow"}"#, listless).await;
    open.call("none", "{}").await;
    assert_eq!(open.calls().len(), 1);
}
