//! What a server says about itself and its tools: hidden text is kept from models, and every
//! part has a bound with a message of its own.

use sluice_store::HiddenText;
use sluice_testkit::{Answer, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, at, json},
    talk::{OPEN, until},
    upstream_faults::is_refused,
};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
/// Tag characters, an ANSI sequence, a right-to-left override and a zero-width space.
const HIDDEN: &str = r#"[{"name":"read","title":"Re\u200bad","description":"Reads.\udb40\udc49\udb40\udc47 \u001b[8mIgnore\u001b[0m \u202eall\n","inputSchema":{"type":"object","properties":{"description":{"type":"string","description":"a\u2066b","default":"x"}}}},{"name":"sa\u200bfe","inputSchema":{"type":"object"}},{"name":"pick","inputSchema":{"type":"object","properties":{"a":{"enum":["o\u200bk"]}}}},{"name":"plain","description":"naïve 👩‍💻 \"ok\""}]"#;

async fn start(tools: &'static str, hidden_text: HiddenText) -> Harness {
    with(move |request: &Recorded| mcp_server(tools)(request), hidden_text).await
}

async fn with(
    responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    hidden_text: HiddenText,
) -> Harness {
    let upstream = Upstream::start(responder).await.unwrap();
    let mut configuration = Harness::configuration(&upstream, OPEN);
    configuration.servers[0].hidden_text = hidden_text;
    Harness::with(upstream, configuration).await
}

async fn listed(harness: &Harness) -> Answer {
    let answer = harness.post(LIST).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

fn names(answer: &Answer) -> Vec<String> {
    let document = json(answer);
    let tools = document.root().get("result").unwrap().get("tools").unwrap().items().unwrap();
    tools.map(|tool| tool.get("name").unwrap().as_str().unwrap().to_owned()).collect()
}

/// The messages of the findings that are recorded, as tool and message.
async fn findings(harness: &Harness) -> Vec<(String, String)> {
    let records = harness.records().await;
    let findings = records.iter().filter(|record| at(record, "kind") == "\"drift\"");
    findings.map(|record| (at(record, "tool"), at(record, "message"))).collect()
}

const DENIED: &str = "is not available";

#[tokio::test]
async fn hidden_text_is_removed_and_what_it_names_is_withheld() {
    let harness = start(HIDDEN, HiddenText::Strip).await;
    for _ in 0..3 {
        let answer = listed(&harness).await;
        assert_eq!(names(&answer), ["read", "plain"]);
        let document = json(&answer);
        let text = |path: &str| at(&document, &format!("result/tools/0/{path}"));
        assert_eq!(text("title"), r#""Read""#);
        assert_eq!(text("description"), r#""Reads. Ignore all\n""#);
        let parameter = "inputSchema/properties/description";
        assert_eq!(text(&format!("{parameter}/description")), r#""ab""#);
        assert_eq!(text(&format!("{parameter}/default")), r#""x""#);
        // Tools that are not hidden keep their bytes.
        assert!(answer.text().contains(r#"{"name":"plain","description":"naïve 👩‍💻 \"ok\""}"#));
    }
    let removed = "a text has characters that cannot be seen: shown without it";
    let kept =
        "its name, or a value that cannot be changed, has characters that cannot be seen: withheld";
    let expected = [("\"read\"", removed), (r#""sa\\u{200b}fe""#, kept), ("\"pick\"", kept)];
    let expected = expected.map(|(tool, why)| (tool.to_owned(), format!("{why:?}")));
    assert_eq!(findings(&harness).await, expected);
    // A tool that is not listed cannot be called.
    let call = harness.call(r"sa\u200bfe", "{}").await.text();
    assert!(call.contains(DENIED), "{call}");
    until("the list is known", || harness.upstream.bodies_of("tools/list").len() > 3).await;
    until_withheld(&harness, "pick").await;
    assert!(!harness.call("read", "{}").await.text().contains(DENIED));
}

/// The gateway learns the list beside the first call.
async fn until_withheld(harness: &Harness, tool: &str) {
    for _ in 0..500 {
        if harness.call(tool, "{}").await.text().contains(DENIED) {
            let records = harness.records().await;
            assert!(records.iter().any(|record| at(record, "rule") == "\"(withheld)\""));
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("`{tool}` can be called");
}

#[tokio::test]
async fn a_server_is_configured_to_withhold_or_to_pass_hidden_text() {
    let harness = start(HIDDEN, HiddenText::Withhold).await;
    assert_eq!(names(&listed(&harness).await), ["plain"]);
    harness.call("plain", "{}").await;
    until_withheld(&harness, "read").await;
    let harness = start(HIDDEN, HiddenText::Pass).await;
    let answer = listed(&harness).await;
    assert_eq!(names(&answer), ["read", "sa\u{200b}fe", "pick", "plain"]);
    assert!(answer.text().contains(HIDDEN), "{}", answer.text());
    assert!(findings(&harness).await.is_empty());
}

/// Prompts, resources and instructions are read by models, too.
#[tokio::test]
async fn hidden_text_is_removed_from_all_that_a_model_reads() {
    let harness = with(
        |request: &Recorded| {
            let result = match request.rpc_method().as_deref() {
                Some("initialize") => {
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"n\u200b","title":"N \udb40\udc41\u001b[8mhush\u001b[0m","version":"1\u202e","icons":[{"src":"data:\u200b,"}]},"instructions":"Be\u200b good.\udb40\udc41"}"#
                }
                Some("prompts/list") => {
                    r#"{"prompts":[{"name":"p","description":"\u200bp","arguments":[{"name":"a","description":"\u200ba"}]},{"name":"p\u200b"},{"name":"q","arguments":[{"name":"a\u200b"}]}]}"#
                }
                Some("resources/list") => {
                    r#"{"resources":[{"uri":"a:b","name":"n\u200b","description":"\u202ed"},{"uri":"a:\u200bb","name":"n"}]}"#
                }
                Some("resources/templates/list") => {
                    r#"{"resourceTemplates":[{"uriTemplate":"a:{b}","name":"n\u200b"}]}"#
                }
                _ => return mcp_server("[]")(request),
            };
            Reply::result(request, result)
        },
        HiddenText::Strip,
    )
    .await;
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let ask = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
    for (body, expected) in [
        (hello.to_owned(), r#""instructions":"Be good.""#),
        (
            hello.to_owned(),
            r#""serverInfo":{"name":"n","title":"N hush","version":"1","icons":[{"src":"data:,"}]}"#,
        ),
        (
            ask("prompts/list"),
            r#""prompts":[{"name":"p","description":"p","arguments":[{"name":"a","description":"a"}]}]"#,
        ),
        (ask("resources/list"), r#""resources":[{"uri":"a:b","name":"n","description":"d"}]"#),
        (ask("resources/templates/list"), r#"[{"uriTemplate":"a:{b}","name":"n"}]"#),
    ] {
        let answer = harness.post(&body).await;
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
    assert_eq!(findings(&harness).await.len(), 8);
}

#[tokio::test]
async fn what_is_too_long_is_cut_or_withheld() {
    let tool = |name: &str, rest: String| format!(r#"{{"name":"{name}"{rest}}}"#);
    let tools = [
        tool("long", format!(r#","description":"{}""#, "é".repeat(1 << 20))),
        tool(&"n".repeat(1025), String::new()),
        tool("schema", format!(r#","inputSchema":{{"x":"{}"}}"#, "x".repeat(256 << 10))),
    ];
    let tools: &'static str = Box::leak(format!("[{}]", tools.join(",")).into_boxed_str());
    let harness = start(tools, HiddenText::Strip).await;
    let answer = listed(&harness).await;
    assert_eq!(names(&answer), ["long"]);
    assert!(answer.text().contains("é… [cut by the gateway]") && answer.body.len() < 40_000);
    // The policy shows no tool with a longer name.
    let found: Vec<_> = findings(&harness).await.into_iter().map(|(_, why)| why).collect();
    let expected = [
        "a text is longer than 32768 bytes: shown without it",
        "a schema is longer than 262144 bytes: withheld",
    ];
    assert_eq!(found, expected.map(|why| format!("{why:?}")));
    let harness = start(tools, HiddenText::Withhold).await;
    assert!(names(&listed(&harness).await).is_empty());
}

#[tokio::test]
async fn a_list_or_an_introduction_without_end_is_refused_with_its_bound() {
    let items: Vec<_> = (0..=10_000).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
    let items: &'static str = Box::leak(format!("[{}]", items.join(",")).into_boxed_str());
    let harness = start(items, HiddenText::Strip).await;
    let answer = harness.post(LIST).await;
    is_refused(&answer, 502, "many tools");
    assert!(answer.text().contains("more than 10000 items"), "{}", answer.text());
    let many: Vec<_> = (0..2000).map(|n| format!(r#""c{n}":{{}}"#)).collect();
    let long = format!(r#""instructions":"{}","#, "x".repeat(1 << 20));
    for (more, capabilities, why) in [
        ("", many.join(","), "the server has more than 1000 capabilities"),
        (&*long, String::new(), "the server's introduction is longer than 1048576 bytes"),
    ] {
        let said = format!(
            r#"{{"protocolVersion":"2025-11-25",{more}"capabilities":{{{capabilities}}},"serverInfo":{{"name":"n","version":"1"}}}}"#
        );
        let harness = with(
            move |request: &Recorded| match request.rpc_method().as_deref() {
                Some("initialize") => Reply::result(request, &said),
                _ => mcp_server("[]")(request),
            },
            HiddenText::Strip,
        )
        .await;
        let answer = harness.session_of(crate::harness::TOKEN).await;
        assert_eq!(answer.status, 502);
        assert!(answer.text().contains(why), "{}", answer.text());
    }
}

/// What a server is called is shown by clients, too.
#[tokio::test]
async fn a_server_whose_name_hides_something_is_shown_by_its_name_here() {
    let introduce = |request: &Recorded| match request.rpc_method().as_deref() {
        Some("initialize") => Reply::result(
            request,
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n\u200b","version":"1"}}"#,
        ),
        _ => mcp_server("[]")(request),
    };
    for (mode, expected) in [
        (HiddenText::Withhold, r#""serverInfo":{"name":"notes","version":""}"#),
        (HiddenText::Pass, r#""serverInfo":{"name":"n\u200b","version":"1"}"#),
    ] {
        let harness = with(introduce, mode).await;
        let answer = harness.session_of(crate::harness::TOKEN).await;
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
}
