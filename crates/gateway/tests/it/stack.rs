//! One address for all servers of a grant: lists put together, calls that reach
//! only their server, and each judged by its own rules.

use std::time::Duration;

use sluice_gateway::{Configuration, Settings};
use sluice_policy::Timestamp;
use sluice_store::TokenHash;
use sluice_testkit::{Answer, End, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, request, server},
    talk::{OPEN, until},
};

pub(crate) const BOB: &str = "sg_test_token_of_bob";
const TOOLS: &str = r#"[{"name":"read","inputSchema":{"type":"object"}, "x":1.0},{"name":"drop","inputSchema":{"type":"object"}}]"#;
const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// A gateway with several servers, each with its upstream.
pub(crate) struct Stacked {
    pub(crate) harness: Harness,
    pub(crate) upstreams: Vec<Upstream>,
}

type Responder = Box<dyn Fn(&Recorded) -> Reply + Send + Sync>;

/// Servers by name, with their rules and what they answer. Grant `alice` has them
/// all in this order, and so has `bob`.
pub(crate) async fn stacked(servers: Vec<(&str, &str, Responder)>) -> Stacked {
    stacked_with(servers, |_| ()).await
}

/// The same with other settings.
async fn stacked_with(
    servers: Vec<(&str, &str, Responder)>,
    tune: impl FnOnce(&mut Settings),
) -> Stacked {
    let mut configuration = Configuration::default();
    let (mut names, mut upstreams) = (Vec::new(), Vec::new());
    for (name, rules, responder) in servers {
        let upstream = Upstream::start(responder).await.unwrap();
        configuration.servers.push(server(name, &upstream.url()));
        configuration.policies.push(policy(name, "rules", rules));
        names.push(name.to_owned());
        upstreams.push(upstream);
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    configuration.grants.push((TokenHash::of(TOKEN), grant("alice", &names, "rules")));
    configuration.grants.push((TokenHash::of(BOB), grant("bob", &names, "rules")));
    let harness = Harness::tuned(upstreams[0].clone(), configuration, tune).await;
    Stacked { harness, upstreams }
}

impl Stacked {
    pub(crate) async fn post_with(&self, headers: &[(&str, &str)], body: &str) -> Answer {
        let address = self.harness.address;
        self.harness.raw(&request("POST", "/mcp", address, headers, body.as_bytes())).await
    }

    pub(crate) async fn post(&self, body: &str) -> Answer {
        self.post_with(&[], body).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Answer {
        self.post(&call(tool, arguments)).await
    }

    /// Begins a session with all servers.
    pub(crate) async fn session(&self) -> String {
        let answer = self.post(HELLO).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("mcp-session-id").expect("a session").to_owned()
    }

    /// The names of the tools that a client is shown.
    pub(crate) async fn shown(&self) -> Vec<String> {
        names(&self.post(LIST).await, "tools", "name")
    }
}

pub(crate) const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}"#;

pub(crate) fn call(tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

pub(crate) fn names(answer: &Answer, member: &str, name: &str) -> Vec<String> {
    let document = json(answer);
    let result = document.root().get("result").unwrap_or_else(|| panic!("{}", answer.text()));
    let items = result.get(member).and_then(sluice_wire::json::Value::items);
    let items = items.unwrap_or_else(|| panic!("{}", answer.text()));
    items.map(|item| item.get(name).unwrap().as_str().unwrap().to_owned()).collect()
}

pub(crate) fn tools(tools: &'static str) -> Responder {
    Box::new(mcp_server(tools))
}

/// Never answers.
pub(crate) fn hanging() -> Responder {
    Box::new(|_| Reply::json("").ending(End::Never))
}

#[tokio::test]
async fn tools_of_all_servers_are_listed_in_the_grants_order() {
    let stack = stacked(vec![("notes", HIDING, tools(TOOLS)), ("mail", OPEN, tools(TOOLS))]).await;
    assert_eq!(stack.shown().await, ["notes__read", "mail__read", "mail__drop"]);
    let answer = stack.post(LIST).await;
    // Whatever is said of a tool besides its name is as its server says it.
    assert!(answer.text().contains(r#""x":1.0"#), "{}", answer.text());
    assert_eq!(at(&json(&answer), "result/_meta"), "");
    let alone = stack.harness.post(LIST).await;
    assert_eq!(names(&alone, "tools", "name"), ["read"], "names are not prefixed there");
}

#[tokio::test]
async fn a_dead_and_a_hanging_server_are_left_out_and_named() {
    let stack = stacked(vec![
        ("dead", OPEN, tools(TOOLS)),
        ("notes", OPEN, tools(TOOLS)),
        ("slow", OPEN, hanging()),
    ])
    .await;
    let mut configuration = stack.harness.configuration.clone();
    configuration.servers[0] = server("dead", "http://127.0.0.1:9/mcp");
    configuration.servers[2].timeout = Duration::from_mins(1);
    stack.harness.gateway.apply(&configuration).unwrap();
    for _ in 0..3 {
        let answer = stack.post(LIST).await;
        assert_eq!(names(&answer, "tools", "name"), ["notes__read", "notes__drop"]);
        let missing = at(&json(&answer), "result/_meta/sluicegate~missing");
        assert_eq!(missing, r#"["dead","slow"]"#);
    }
    // Once late, it is not waited for again; a call asks it all the same.
    assert_eq!(stack.upstreams[2].bodies_of("tools/list").len(), 1);
    let hello = json(&stack.post(HELLO).await);
    assert_eq!(at(&hello, "result/_meta/sluicegate~missing"), r#"["dead","slow"]"#);
    let called = json(&stack.call("dead__read", "{}").await);
    assert_eq!(at(&called, "error/data/side"), r#""upstream""#);
    let called = json(&stack.call("notes__read", "{}").await);
    assert_eq!(at(&called, "result/content/0/text"), r#""done""#);
}

#[tokio::test]
async fn a_call_reaches_only_its_server_under_its_own_name() {
    let stack = stacked(vec![("notes", OPEN, tools(TOOLS)), ("mail", OPEN, tools(TOOLS))]).await;
    let session = stack.session().await;
    let body = r#"{"jsonrpc":"2.0", "id":"seven","method":"tools/call","params":{"name":"mail__read" ,"arguments":{"n":1.0},"_meta":{"progressToken":3}}}"#;
    let answer = stack.post_with(&[("mcp-session-id", &session)], body).await;
    assert_eq!(at(&json(&answer), "id"), r#""seven""#);
    assert!(stack.upstreams[0].bodies_of("tools/call").is_empty());
    let expected = body.replace("mail__read", "read");
    assert_eq!(stack.upstreams[1].bodies_of("tools/call"), [expected]);
    let sent = stack.upstreams[1].requests();
    let sent = sent.iter().find(|one| one.rpc_method().as_deref() == Some("tools/call")).unwrap();
    assert_eq!(sent.header("mcp-session-id"), Some("upstream-session"));
    assert_eq!(sent.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(sent.header("authorization"), None);
    let records = stack.harness.records().await;
    assert_eq!(at(&records[0], "server"), r#""mail""#);
    assert_eq!(at(&records[0], "tool"), r#""read""#);
    assert_eq!(at(&records[0], "outcome"), r#""allow""#);
    assert_eq!(at(&records[0], "policy/name"), r#""rules""#);
}

#[tokio::test]
async fn names_without_a_known_server_are_unknown_tools() {
    let stack = stacked(vec![("a", HIDING, tools(TOOLS)), ("b-2", HIDING, tools(TOOLS))]).await;
    let mut configuration = stack.harness.configuration.clone();
    configuration.servers.push(server("c", &stack.upstreams[0].url()));
    configuration.policies.push(policy("c", "rules", OPEN));
    stack.harness.gateway.apply(&configuration).unwrap();
    let long = format!("{}__read", "a".repeat(3000));
    let hostile = [
        "read",
        "A__read",
        "a_read",
        "a___read",
        "_a__read",
        "__read",
        "__",
        "",
        "a",
        "c__read",
        "a /__read",
        "a.b__read",
        "b_2__read",
        "\\u0430__read",
        "a\\u0000__read",
        "a\\u200b__read",
        " a__read",
        "b-2 __read",
        "notes/../a__read",
        &long,
        "a__drop",
        "a__",
        "a__b__c",
        "a__A__read",
        "a__ read",
        "b-2__a__read",
    ];
    for name in hostile {
        let answer = stack.call(name, "{}").await;
        let document = json(&answer);
        assert_eq!(at(&document, "result/isError"), "true", "{name}: {}", answer.text());
        let rule = at(&document, "result/_meta/sluicegate~decision/rule");
        assert_eq!(rule, r#""(not available)""#, "{name}: {}", answer.text());
    }
    for upstream in &stack.upstreams {
        assert!(upstream.bodies_of("tools/call").is_empty());
    }
    let records = stack.harness.records().await;
    assert_eq!(records.len(), hostile.len());
    for (record, name) in records.iter().zip(hostile) {
        assert_eq!(at(record, "method"), r#""tools/call""#);
        let rule = if name == "a__drop" { r#""(hidden)""# } else { r#""(unknown tool)""# };
        assert_eq!(at(record, "rule"), rule, "{name}");
        let is_served = name.starts_with("a__") || name.starts_with("b-2__");
        assert_eq!(!at(record, "server").is_empty(), is_served, "{name}");
    }
}

#[tokio::test]
async fn a_tool_may_have_the_separator_in_its_own_name() {
    let odd = r#"[{"name":"x__y"},{"name":"__"},{"name":"mail__read"}]"#;
    let stack = stacked(vec![("notes", OPEN, tools(odd)), ("mail", OPEN, tools(TOOLS))]).await;
    let shown = stack.shown().await;
    assert_eq!(shown[..3], ["notes__x__y", "notes____", "notes__mail__read"]);
    for tool in &shown[..3] {
        let called = json(&stack.call(tool, "{}").await);
        assert_eq!(at(&called, "result/content/0/text"), r#""done""#);
    }
    let sent = stack.upstreams[0].bodies_of("tools/call");
    for (sent, own) in sent.iter().zip(["x__y", "__", "mail__read"]) {
        assert_eq!(*sent, call(own, "{}"));
    }
    assert!(stack.upstreams[1].bodies_of("tools/call").is_empty());
}

#[tokio::test]
async fn each_server_has_its_own_rules_and_limits() {
    let limited = r#"{"version":"1","default":"deny","tools":{"read":{"rate_limit":"1/minute"}}}"#;
    let stack = stacked(vec![
        ("notes", limited, tools(TOOLS)),
        ("mail", limited, tools(TOOLS)),
        ("open", OPEN, tools(TOOLS)),
    ])
    .await;
    let is_error = |answer: &Answer| at(&json(answer), "result/isError") == "true";
    assert!(!is_error(&stack.call("notes__read", "{}").await));
    assert!(is_error(&stack.call("notes__read", "{}").await));
    assert!(is_error(&stack.call("notes__drop", "{}").await));
    // The counter is the server's, whichever way it is reached.
    assert!(is_error(&stack.harness.call("read", "{}").await));
    assert!(!is_error(&stack.call("mail__read", "{}").await));
    assert!(!is_error(&stack.call("open__drop", "{}").await));
    let records = stack.harness.records().await;
    let of = |server: &str, outcome: &str| {
        let is_it = |record: &&sluice_wire::json::Document| {
            at(record, "server") == format!("\"{server}\"")
                && at(record, "outcome") == format!("\"{outcome}\"")
                && at(record, "kind") == r#""decision""#
        };
        records.iter().filter(is_it).count()
    };
    assert_eq!((of("notes", "allow"), of("notes", "deny")), (1, 3));
    assert_eq!((of("mail", "allow"), of("open", "allow")), (1, 1));
}

#[tokio::test]
async fn invalid_requests_to_the_stack_are_refused() {
    let stack = stacked(vec![("notes", OPEN, tools(TOOLS))]).await;
    for (headers, body, status) in [
        (&[("authorization", "-")][..], LIST, 401),
        (&[("authorization", "Bearer sg_wrong")], LIST, 401),
        (&[("host", "evil.example")], LIST, 403),
        (&[("origin", "https://evil.example")], LIST, 403),
        (&[("content-type", "text/plain")], LIST, 415),
        (&[], "{", 400),
        (&[], "[]", 400),
        (&[], r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"x"}"#, 400),
        (&[], r#"{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}"#, 400),
        (&[], r#"{"jsonrpc":"2.0","method":"tools/list"}"#, 400),
        (&[("mcp-session-id", "nonsense")], LIST, 404),
        (&[], r#"{"jsonrpc":"2.0","id":"x","result":{}}"#, 202),
    ] {
        let answer = stack.post_with(headers, body).await;
        assert_eq!(answer.status, status, "{headers:?} {body}: {}", answer.text());
    }
    let with_cursor = LIST.replace('}', r#","params":{"cursor":"x"}}"#);
    assert_eq!(at(&json(&stack.post(&with_cursor).await), "error/code"), "-32602");
    let look_alike =
        call("notes__read", "{}").replace("\"name\"", "\"Name\":\"notes__drop\",\"name\"");
    assert_eq!(at(&json(&stack.post(&look_alike).await), "error/code"), "-32602");
    for (method, code) in [("vendor/eval", "-32601"), ("Tools/Call", "-32601")] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        assert_eq!(at(&json(&stack.post(&body).await), "error/code"), code);
    }
    let records = stack.harness.records().await;
    let methods: Vec<_> = records
        .iter()
        .filter(|record| at(record, "rule") == r#""/methods""#)
        .map(|record| at(record, "method"))
        .collect();
    assert_eq!(methods, [r#""vendor/eval""#, r#""Tools/Call""#]);
    let head = stack.harness.raw(&request("PUT", "/mcp", stack.harness.address, &[], b"")).await;
    assert_eq!(head.status, 405);
}

#[tokio::test]
async fn every_page_of_every_server_is_there() {
    let paged: Responder = Box::new(|request: &Recorded| {
        if request.rpc_method().as_deref() != Some("tools/list") {
            return mcp_server("[]")(request);
        }
        let text = request.text();
        let (tool, next) = if text.contains(r#""cursor":"c2""#) {
            ("third", "")
        } else if text.contains(r#""cursor":"c1""#) {
            ("second", r#","nextCursor":"c2""#)
        } else {
            ("first", r#","nextCursor":"c1""#)
        };
        Reply::result(request, &format!(r#"{{"tools":[{{"name":"{tool}"}}]{next}}}"#))
    });
    let endless: Responder = Box::new(|request: &Recorded| {
        if request.rpc_method().as_deref() != Some("tools/list") {
            return mcp_server("[]")(request);
        }
        Reply::result(request, r#"{"tools":[],"nextCursor":"more"}"#)
    });
    let stack = stacked(vec![("notes", OPEN, paged), ("endless", OPEN, endless)]).await;
    let answer = stack.post(LIST).await;
    let shown = names(&answer, "tools", "name");
    assert_eq!(shown, ["notes__first", "notes__second", "notes__third"]);
    assert_eq!(at(&json(&answer), "result/_meta/sluicegate~missing"), r#"["endless"]"#);
}

#[tokio::test]
async fn lists_that_cannot_be_filtered_or_are_too_long_are_left_out() {
    let bad: Responder = Box::new(|request: &Recorded| match request.rpc_method().as_deref() {
        Some("tools/list") => Reply::result(request, r#"{"tools":[{"name":"a"},{"name":"a"}]}"#),
        _ => mcp_server("[]")(request),
    });
    let long: Responder = Box::new(|request: &Recorded| match request.rpc_method().as_deref() {
        Some("tools/list") => Reply::result(
            request,
            &format!(r#"{{"tools":[{{"name":"a","_meta":{{"x":"{}"}}}}]}}"#, "x".repeat(9 << 16)),
        ),
        _ => mcp_server("[]")(request),
    });
    let also: Responder = Box::new(|request: &Recorded| match request.rpc_method().as_deref() {
        Some("tools/list") => Reply::result(
            request,
            &format!(r#"{{"tools":[{{"name":"b","_meta":{{"x":"{}"}}}}]}}"#, "x".repeat(9 << 16)),
        ),
        _ => mcp_server("[]")(request),
    });
    let servers = vec![
        ("bad", OPEN, bad),
        ("long", OPEN, long),
        ("also", OPEN, also),
        ("notes", OPEN, tools(TOOLS)),
    ];
    let stack = stacked_with(servers, |settings| settings.answer = 1 << 20).await;
    let answer = stack.post(LIST).await;
    let text = answer.text();
    assert!(text.contains("long__a") && !text.contains("also__b") && text.contains("notes__read"));
    assert!(text.ends_with(r#""_meta":{"sluicegate/missing":["bad","also"]}}}"#));
}

#[tokio::test]
async fn a_grant_with_one_server_is_prefixed_too() {
    let stack = stacked(vec![("notes", OPEN, tools(TOOLS))]).await;
    assert_eq!(stack.shown().await, ["notes__read", "notes__drop"]);
    let unprefixed = json(&stack.call("read", "{}").await);
    assert_eq!(at(&unprefixed, "result/isError"), "true");
    let called = json(&stack.call("notes__read", "{}").await);
    assert_eq!(at(&called, "result/content/0/text"), r#""done""#);
}

#[tokio::test]
async fn a_policy_that_is_missing_or_a_grant_without_servers_shows_nothing() {
    let stack = stacked(vec![("notes", OPEN, tools(TOOLS)), ("mail", OPEN, tools(TOOLS))]).await;
    let mut configuration = stack.harness.configuration.clone();
    configuration.policies.remove(0);
    stack.harness.gateway.apply(&configuration).unwrap();
    assert_eq!(stack.shown().await, ["mail__read", "mail__drop"]);
    assert_eq!(at(&json(&stack.call("notes__read", "{}").await), "result/isError"), "true");
    configuration.servers.clear();
    configuration.policies.clear();
    stack.harness.gateway.apply(&configuration).unwrap();
    assert!(stack.shown().await.is_empty());
    let mut expired = configuration.grants[0].1.clone();
    expired.expires_at = Some(Timestamp::from_millis(1));
    stack.harness.gateway.set_grant(&TokenHash::of(TOKEN), Some(&expired));
    assert_eq!(stack.post(LIST).await.status, 401);
}

/// What is late is told when it has come.
#[tokio::test]
async fn a_server_that_was_late_is_asked_again_once_it_has_answered() {
    let slow: Responder = Box::new(|request: &Recorded| {
        let mut reply = mcp_server(TOOLS)(request);
        if request.rpc_method().as_deref() == Some("tools/list") {
            reply.pieces.insert(0, (Duration::from_millis(3500), " ".into()));
        }
        reply
    });
    let stack = stacked(vec![("notes", OPEN, tools(TOOLS)), ("slow", OPEN, slow)]).await;
    let mut configuration = stack.harness.configuration.clone();
    configuration.servers[1].timeout = Duration::from_mins(1);
    stack.harness.gateway.apply(&configuration).unwrap();
    let session = stack.session().await;
    let headers = [("mcp-session-id", session.as_str())];
    let bytes = request("GET", "/mcp", stack.harness.address, &headers, b"");
    let mut stream = sluice_testkit::RawClient::connect(stack.harness.address).await.unwrap();
    stream.send(&bytes).await.unwrap();
    stream.head().await.unwrap();
    let answer = stack.post_with(&headers, LIST).await;
    assert_eq!(names(&answer, "tools", "name"), ["notes__read", "notes__drop"]);
    crate::talk::hear(&mut stream, "notifications/tools/list_changed").await;
    until("its list was sent for", || stack.upstreams[1].bodies_of("tools/list").len() == 1).await;
}
