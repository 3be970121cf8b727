//! Lists: filtered on every page, in both forms and eras, or refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use sluice_testkit::{End, Recorded, Reply, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, json},
    talk::{OPEN, hear, modern_server, with_event_ids},
};

const TOOLS: &str = r#"[{"name":"read","inputSchema":{"type":"object"}, "title" : "R\u0065ad", "x":1.0},
  {"name":"drop","inputSchema":{"type":"object"}},{"name":"write","inputSchema":{"type":"object"}}]"#;
const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// A tool that is shown only to clients that can be asked for something.
const ASKING: &str = r#"[{"name":"asks","inputSchema":{"type":"object"}}]"#;

/// A server whose lists are these results, in this form.
fn listing(result: &'static str, as_events: bool) -> impl Fn(&Recorded) -> Reply + Send + Sync {
    move |request| {
        let method = request.rpc_method().unwrap_or_default();
        if !method.ends_with("/list") {
            return mcp_server("[]")(request);
        }
        if as_events {
            let id = request.rpc_id();
            Reply::events(format!(
                "event: message\nid: 4\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\ndata: \"result\":{result}}}\n\n"
            ))
        } else {
            Reply::result(request, result)
        }
    }
}

#[tokio::test]
async fn hidden_tools_are_left_out_and_the_rest_is_as_it_was() {
    const RESULT: &str = r#"{"nextCursor":"c","tools":[{"name":"read","title" : "R\u0065ad","x":1.0},{"name":"drop"},{"name":"write"}],"_meta":{"a":1.50}}"#;
    const SHOWN: &str = r#"{"nextCursor":"c","tools":[{"name":"read","title" : "R\u0065ad","x":1.0},{"name":"write"}],"_meta":{"a":1.50}}"#;
    for as_events in [false, true] {
        let harness = Harness::start(HIDING, listing(RESULT, as_events)).await;
        for cursor in ["", r#","params":{"cursor":"c"}"#] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"{cursor}}}"#);
            let answer = harness.post(&body).await;
            let text = answer.text();
            if as_events {
                // The lines of one event are one text.
                let data: String =
                    text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                assert_eq!(data, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{SHOWN}}}"#));
                assert!(text.starts_with("event: message\nid: 4\n"), "{text}");
            } else {
                assert_eq!(text, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{SHOWN}}}"#));
            }
        }
    }
}

#[tokio::test]
async fn under_default_deny_only_what_is_named_is_shown() {
    let policy =
        r#"{"version":"1","default":"deny","tools":{"read":{},"write":{"action":"deny"}}}"#;
    let harness = Harness::start(policy, mcp_server(TOOLS)).await;
    let answer = json(&harness.post(LIST).await);
    assert_eq!(at(&answer, "result/tools/0/name"), "\"read\"");
    assert_eq!(at(&answer, "result/tools/1/name"), "\"write\"");
    assert_eq!(at(&answer, "result/tools/2"), "");
}

#[tokio::test]
async fn a_filtered_modern_list_is_kept_privately_and_not_for_long() {
    let harness = Harness::start(HIDING, modern_server(TOOLS)).await;
    let answer = json(&harness.modern("tools/list", None, "").await);
    assert_eq!(at(&answer, "result/cacheScope"), "\"private\"");
    assert_eq!(at(&answer, "result/ttlMs"), "60000");
    assert_eq!(at(&answer, "result/tools/1/name"), "\"write\"");
}

#[tokio::test]
async fn a_list_that_cannot_be_filtered_is_refused() {
    let wrong = [
        "{}",
        r#"{"tools":null}"#,
        r#"{"tools":{"name":"drop"}}"#,
        r#"{"tools":"drop"}"#,
        r#"{"tools":[{"title":"drop"}]}"#,
        r#"{"tools":[{"name":1}]}"#,
        r#"{"tools":["drop"]}"#,
        r#"{"tools":[[{"name":"drop"}]]}"#,
        r#"{"tools":[null]}"#,
        r#"{"tools":[{"name":"read"},{"name":"read"}]}"#,
        r#"{"tools":[{"name":"read","Name":"drop"}]}"#,
        r#"{"tools":[{"name":"read","name\u0000":"drop"}]}"#,
        r#"{"tools":[{"name":"read","name":"drop"}]}"#,
        r#"{"tools":[],"tools":[{"name":"drop"}]}"#,
        r#"{"tools":[],"Tools":[{"name":"drop"}]}"#,
        r#"{"tools":[],"tool\u017f":[{"name":"drop"}]}"#,
        r#"{"tools":[],"tools ":[{"name":"drop"}]}"#,
        r#"{"Tools":[{"name":"drop"}]}"#,
        r#"[{"name":"drop"}]"#,
        "null",
    ];
    for result in wrong {
        for as_events in [false, true] {
            let harness = Harness::start(HIDING, listing(result, as_events)).await;
            let answer = harness.post(LIST).await;
            assert_eq!(answer.status, 502, "{result}: {}", answer.text());
            assert_eq!(at(&json(&answer), "error/code"), "-32603");
            assert_eq!(at(&json(&answer), "error/data/side"), "\"upstream\"");
            assert!(!answer.text().contains("drop"), "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn other_lists_are_filtered_by_their_own_rules() {
    const RESULT: &str = r#"{"resources":[{"uri":"file:///open/a"},{"uri":"file:///b"}],"resourceTemplates":[{"uriTemplate":"file:///open/{x}"},{"uriTemplate":"file:///{x}"}],"prompts":[{"name":"open-a"},{"name":"b"}]}"#;
    let policy = r#"{"version":"1","default":"deny","resources":{"allow":["file:///open/*"]},"prompts":{"allow":["open-*"]}}"#;
    for as_events in [false, true] {
        let harness = Harness::start(policy, listing(RESULT, as_events)).await;
        for (method, gone, kept) in [
            ("resources/list", "\"file:///b\"", "file:///open/a"),
            ("resources/templates/list", "\"file:///{x}\"", "file:///open/{x}"),
            ("prompts/list", "\"b\"", "open-a"),
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
            let answer = harness.post(&body).await;
            assert_eq!(answer.status, 200);
            assert!(answer.text().contains(kept), "{}", answer.text());
            let member = if method.contains("templates") {
                "resourceTemplates"
            } else {
                method.split('/').next().unwrap()
            };
            if !as_events {
                assert_eq!(at(&json(&answer), &format!("result/{member}/1")), "");
                assert!(!at(&json(&answer), &format!("result/{member}")).contains(gone));
            }
        }
    }
}

#[tokio::test]
async fn denied_lists_are_empty_and_the_server_is_not_asked() {
    let harness = Harness::start(r#"{"version":"1","default":"deny"}"#, mcp_server(TOOLS)).await;
    for (method, member) in [
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        let answer = harness.post(&body).await;
        assert_eq!(at(&json(&answer), &format!("result/{member}")), "[]");
        assert!(harness.upstream.bodies_of(method).is_empty());
    }
}

/// Byte for byte, apart from ids: nobody can find out what is hidden.
#[tokio::test]
async fn hidden_unlisted_and_unknown_tools_look_the_same() {
    let names = ["drop", "none"];
    for policy in [
        HIDING,
        r#"{"version":"1","default":"deny","hide":["drop"],"tools":{"read":{}}}"#,
        r#"{"version":"1","default":"deny","tools":{"read":{}}}"#,
    ] {
        for is_modern in [false, true] {
            let harness = if is_modern {
                Harness::start(policy, modern_server(TOOLS)).await
            } else {
                Harness::start(policy, mcp_server(TOOLS)).await
            };
            let mut seen = Vec::new();
            for arguments in ["{}", r#"{"a":1}"#] {
                for name in names {
                    let answer = if is_modern {
                        harness.modern_call(name, arguments).await
                    } else {
                        harness.call(name, arguments).await
                    };
                    let document = json(&answer);
                    let id = at(&document, "result/_meta/sluicegate~decision/id");
                    assert_eq!(id.len(), 28);
                    let text =
                        answer.text().replace(id.trim_matches('"'), "ID").replace(name, "NAME");
                    let headers: Vec<_> =
                        answer.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
                    seen.push((answer.status, headers, text));
                }
            }
            assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
            assert!(harness.calls().is_empty());
        }
    }
}

/// What is repeated on a GET stream is filtered like the answer itself was.
#[tokio::test]
async fn repeated_lists_are_filtered_too() {
    let replay = |result: &str| {
        format!(
            "id: 2\ndata: {{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{result}}}\n\nid: 3\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"data\":\"after\"}}}}\n\n"
        )
    };
    let good = replay(r#"{"tools":[{"name":"read"},{"name":"drop"}]}"#);
    let harness = Harness::start(HIDING, move |request: &Recorded| match request.method.as_str() {
        "GET" => Reply::events(good.clone()).ending(End::Never),
        _ => with_event_ids(mcp_server(TOOLS))(request),
    })
    .await;
    let session = harness.session(TOKEN).await;
    let last = harness.event_id(TOKEN, &session).await;
    let headers = [("mcp-session-id", session.as_str()), ("last-event-id", last.as_str())];
    let mut client = harness.begun("GET", &headers, b"").await;
    client.head().await.unwrap();
    let heard = hear(&mut client, "after").await;
    assert!(heard.contains(r#""id":9,"result":{"tools":[{"name":"read"}]}"#), "{heard}");
    for result in [
        r#"{"Tools":[{"name":"drop"}]}"#,
        r#"{"tools":{"a":{"name":"drop"}}}"#,
        r#"{"content":[],"tools ":[{"name":"drop"}]}"#,
    ] {
        let bad = replay(result);
        let harness =
            Harness::start(HIDING, move |request: &Recorded| match request.method.as_str() {
                "GET" => Reply::events(bad.clone()).ending(End::Never),
                _ => with_event_ids(mcp_server(TOOLS))(request),
            })
            .await;
        let session = harness.session(TOKEN).await;
        let last = harness.event_id(TOKEN, &session).await;
        let headers = [("mcp-session-id", session.as_str()), ("last-event-id", last.as_str())];
        let mut client = harness.begun("GET", &headers, b"").await;
        let answer = client.answer().await.unwrap().unwrap();
        assert!(!answer.is_whole && !answer.text().contains("drop"), "{result}: {}", answer.text());
    }
}

/// So is everything else that a stream repeats: other lists, who the server is,
/// and what it asks.
#[tokio::test]
async fn repeated_messages_are_judged_like_the_first_time() {
    const RULES: &str = r#"{"version":"1","default":"allow","resources":{"allow":["file:///open"]},"prompts":{"allow":["shown"]},"server_requests":["sampling"]}"#;
    let repeated = [
        r#"{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"file:///open"},{"uri":"file:///secret"}]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"prompts":[{"name":"shown"},{"name":"hidden"}]}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"capabilities":{"tools":{}}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"result":{"content":[],"isError":false}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"sampling/createMessage","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///secret"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
    ];
    let events: Vec<_> = repeated.iter().map(|text| format!("data: {text}\n\n")).collect();
    let events = events.concat();
    let harness = Harness::start(RULES, move |request: &Recorded| match request.method.as_str() {
        "GET" => Reply::events(events.clone()).ending(End::Never),
        _ => with_event_ids(mcp_server(TOOLS))(request),
    })
    .await;
    let session = harness.session(TOKEN).await;
    let last = harness.event_id(TOKEN, &session).await;
    let headers = [("mcp-session-id", session.as_str()), ("last-event-id", last.as_str())];
    let mut client = harness.begun("GET", &headers, b"").await;
    client.head().await.unwrap();
    let heard = hear(&mut client, "tools/list_changed").await;
    for passed in [
        r#""resources":[{"uri":"file:///open"}]"#,
        r#""prompts":[{"name":"shown"}]"#,
        r#""listChanged":true"#,
        repeated[3],
        "sampling/createMessage",
    ] {
        assert!(heard.contains(passed), "{passed}: {heard}");
    }
    for kept in ["secret", "hidden", "elicitation", r#""id":6"#] {
        assert!(!heard.contains(kept), "{kept}: {heard}");
    }
}

/// On a stream of its own nothing answers anything.
#[tokio::test]
async fn answers_do_not_come_by_a_stream_that_was_not_resumed() {
    let harness = Harness::start(OPEN, |request: &Recorded| match request.method.as_str() {
        "GET" => {
            Reply::events("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n")
                .ending(End::Never)
        }
        _ => mcp_server("[]")(request),
    })
    .await;
    let session = harness.session(TOKEN).await;
    let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
    let answer = client.answer().await.unwrap().unwrap();
    assert!(!answer.is_whole && answer.body.is_empty(), "{}", answer.text());
}

#[tokio::test]
async fn pages_of_a_list_that_changes_between_them_are_all_judged() {
    let page = AtomicUsize::new(0);
    let harness = Harness::start(HIDING, move |request: &Recorded| {
        if request.rpc_method().as_deref() != Some("tools/list") {
            return mcp_server("[]")(request);
        }
        let name = ["read", "drop", "write"][page.fetch_add(1, Ordering::Relaxed) % 3];
        Reply::result(
            request,
            &format!(r#"{{"tools":[{{"name":"{name}"}}],"nextCursor":"{name}"}}"#),
        )
    })
    .await;
    for expected in [r#"[{"name":"read"}]"#, "[]", r#"[{"name":"write"}]"#] {
        assert_eq!(at(&json(&harness.post(LIST).await), "result/tools"), expected);
    }
}

#[tokio::test]
async fn tools_that_only_some_clients_are_shown_are_learnt() {
    let policy = r#"{"version":"1","default":"allow","hide":["secret"]}"#;
    // Its list depends on whether the session's client can be asked for something.
    let server = |request: &Recorded| {
        let is_shown = request.header("mcp-session-id") == Some("can-be-asked");
        match &*request.text() {
            text if text.contains(r#""method":"initialize""#) => {
                let can = text.contains("elicitation");
                let session = if can { "can-be-asked" } else { "cannot" };
                let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
                Reply::result(request, hello).with_header("mcp-session-id", session)
            }
            text if text.contains("tools/list") && is_shown => mcp_server(ASKING)(request),
            _ => mcp_server(TOOLS)(request),
        }
    };
    let harness = Harness::start(policy, server).await;
    let answer = harness.call("asks", "{}").await;
    assert_eq!(harness.calls().len(), 1, "{}", answer.text());
}
