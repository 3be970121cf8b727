//! One address for all servers in the modern era, and what is not a tool:
//! resources, prompts, completions, tasks.

use sluice_testkit::{Answer, End, RawClient, Recorded, Reply, mcp_server};

use crate::{
    harness::{at, json, policy, request},
    stack::{Stacked, names, stacked, tools},
    talk::{OPEN, hear, mirrors, modern_body, modern_server, until},
};

const TOOLS: &str = r#"[{"name":"read"},{"name":"drop"}]"#;
const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;

type Responder = Box<dyn Fn(&Recorded) -> Reply + Send + Sync>;

impl Stacked {
    async fn modern(&self, method: &str, target: Option<&str>, params: &str) -> Answer {
        self.post_with(&mirrors(method, target), &modern_body(method, params, "{}")).await
    }
}

fn modern() -> Responder {
    Box::new(modern_server(TOOLS))
}

#[tokio::test]
async fn headers_repeat_the_prefixed_name_and_are_made_anew() {
    let stack = stacked(vec![("notes", HIDING, modern()), ("mail", OPEN, modern())]).await;
    let listed = stack.modern("tools/list", None, "").await;
    assert_eq!(names(&listed, "tools", "name"), ["notes__read", "mail__read", "mail__drop"]);
    let said = json(&listed);
    assert_eq!(at(&said, "result/cacheScope"), r#""private""#);
    assert_eq!(at(&said, "result/ttlMs"), "60000");
    assert_eq!(at(&said, "result/resultType"), r#""complete""#);
    let params = r#""name":"mail__read","arguments":{}"#;
    let called = stack.modern("tools/call", Some("mail__read"), params).await;
    assert_eq!(at(&json(&called), "result/content/0/text"), r#""done""#);
    let sent = stack.upstreams[1].requests();
    let sent = sent.iter().find(|one| one.rpc_method().as_deref() == Some("tools/call")).unwrap();
    assert_eq!(sent.header("mcp-name"), Some("read"));
    assert!(sent.text().contains(r#""name":"read""#) && !sent.text().contains("mail"));
    for wrong in [None, Some("read"), Some("notes__read")] {
        let refused = stack.modern("tools/call", wrong, params).await;
        assert_eq!(at(&json(&refused), "error/code"), "-32020", "{wrong:?}");
    }
    let hidden = r#""name":"notes__drop""#;
    let denied = stack.modern("tools/call", Some("notes__drop"), hidden).await;
    assert_eq!(at(&json(&denied), "result/isError"), "true");
    let unknown = stack.modern("tools/call", Some("read"), r#""name":"read""#).await;
    assert_eq!(at(&json(&unknown), "result/resultType"), r#""complete""#);
    let unknown = stack.modern("vendor/eval", None, "").await;
    assert_eq!(unknown.status, 404);
    assert!(stack.upstreams[0].bodies_of("tools/call").is_empty());
}

#[tokio::test]
async fn discovery_speaks_for_all_and_an_older_server_decides_the_era() {
    let stack = stacked(vec![("notes", OPEN, modern()), ("mail", OPEN, modern())]).await;
    let said = json(&stack.modern("server/discover", None, "").await);
    assert_eq!(at(&said, "result/supportedVersions"), r#"["2026-07-28"]"#);
    assert_eq!(at(&said, "result/serverInfo/name"), r#""sluicegate""#);
    assert_eq!(at(&said, "result/capabilities"), r#"{"tools":{"listChanged":true}}"#);
    let stack = stacked(vec![("notes", OPEN, modern()), ("old", OPEN, tools(TOOLS))]).await;
    let answer = stack.modern("server/discover", None, "").await;
    assert_eq!((answer.status, at(&json(&answer), "error/code")), (400, "-32601".into()));
}

fn listening_server(notes: &'static str) -> Responder {
    Box::new(move |request| {
        match request.rpc_method().as_deref() {
        Some("subscriptions/listen") => Reply::events(format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"notifications\":{{\"promptsListChanged\":true}}}}}}\n\n{notes}"
        ))
        .ending(End::Never),
        _ => modern_server(TOOLS)(request),
    }
    })
}

#[tokio::test]
async fn all_servers_are_listened_to_on_one_stream() {
    let stack = stacked(vec![
        (
            "notes",
            OPEN,
            listening_server(
                "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\",\"params\":{}}\n\n",
            ),
        ),
        ("mail", OPEN, modern()),
        (
            "other",
            OPEN,
            listening_server(
                "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{}}\n\n",
            ),
        ),
    ])
    .await;
    stack.modern("tools/list", None, "").await;
    let wish = r#""notifications":{"toolsListChanged":true,"promptsListChanged":true}"#;
    let body = modern_body("subscriptions/listen", wish, "{}");
    let headers = mirrors("subscriptions/listen", None);
    let bytes = request("POST", "/mcp", stack.harness.address, &headers, body.as_bytes());
    let mut client = RawClient::connect(stack.harness.address).await.unwrap();
    client.send(&bytes).await.unwrap();
    client.head().await.unwrap();
    let mut heard = hear(&mut client, "acknowledged").await;
    let first = heard.split("\n\n").next().unwrap();
    assert!(
        first.contains(r#""notifications":{"toolsListChanged":true,"promptsListChanged":true}"#),
        "{heard}"
    );
    for method in ["notifications/prompts/list_changed", "notifications/tools/list_changed"] {
        if !heard.contains(method) {
            heard += &hear(&mut client, method).await;
        }
    }
    assert!(heard.contains(r#""io.modelcontextprotocol/subscriptionId":1"#), "{heard}");
    for place in [0, 1] {
        let mut configuration = stack.harness.configuration.clone();
        let name = configuration.servers[place].name.as_str().to_owned();
        configuration.policies[place] =
            policy(&name, "rules", r#"{"version":"1","default":"deny"}"#);
        stack.harness.gateway.apply(&configuration).unwrap();
        hear(&mut client, "notifications/tools/list_changed").await;
    }
}

/// A legacy server with resources of a kind, prompts, and answers that say whose
/// they are.
fn rich(kind: &'static str) -> Responder {
    Box::new(move |request| {
        let result = match request.rpc_method().as_deref() {
            Some("resources/list") => {
                format!(
                    r#"{{"resources":[{{"uri":"{kind}:1","name":"a"}},{{"uri":"shared:1","name":"{kind}"}}]}}"#
                )
            }
            Some("resources/templates/list") => {
                format!(
                    r#"{{"resourceTemplates":[{{"uriTemplate":"{kind}:///{{id}}","name":"t"}}]}}"#
                )
            }
            Some("prompts/list") => r#"{"prompts":[{"name":"ask"},{"name":"secret"}]}"#.into(),
            Some("resources/read" | "prompts/get" | "resources/subscribe") => {
                format!(r#"{{"of":"{kind}"}}"#)
            }
            Some("completion/complete") => r#"{"completion":{"values":[]}}"#.into(),
            Some("tools/call") => format!(r#"{{"task":{{"taskId":"{kind}-t"}}}}"#),
            Some("tasks/get") => format!(r#"{{"taskId":"{kind}-t","status":"working"}}"#),
            Some("tasks/list") => format!(r#"{{"tasks":[{{"taskId":"{kind}-t"}}]}}"#),
            _ => return mcp_server(TOOLS)(request),
        };
        Reply::result(request, &result)
    })
}

const FEW: &str = r#"{"version":"1","default":"allow","prompts":{"allow":["ask"]},"resources":{"allow":["shared:*"]}}"#;

fn ask(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

#[tokio::test]
async fn resources_are_read_where_they_are_listed() {
    let stack = stacked(vec![
        ("tools", OPEN, tools(TOOLS)),
        ("notes", OPEN, rich("note")),
        ("mail", OPEN, rich("mail")),
    ])
    .await;
    let listed = stack.post(&ask("resources/list", "{}")).await;
    assert_eq!(names(&listed, "resources", "uri"), ["note:1", "shared:1", "mail:1"]);
    // A server without resources is not missing.
    assert_eq!(at(&json(&listed), "result/_meta"), "");
    let listed = stack.post(&ask("resources/templates/list", "{}")).await;
    assert_eq!(
        names(&listed, "resourceTemplates", "uriTemplate"),
        ["note:///{id}", "mail:///{id}"]
    );
    let fresh = stacked(vec![
        ("tools", OPEN, tools(TOOLS)),
        ("notes", OPEN, rich("note")),
        ("mail", OPEN, rich("mail")),
    ])
    .await;
    for stack in [&stack, &fresh] {
        for (uri, of) in [
            ("mail:1", "mail"),
            ("note:1", "note"),
            ("shared:1", "note"),
            ("mail:///7", "mail"),
            ("note:///x/y", "note"),
        ] {
            for method in ["resources/read", "resources/subscribe"] {
                let read = stack.post(&ask(method, &format!(r#"{{"uri":"{uri}"}}"#))).await;
                assert_eq!(at(&json(&read), "result/of"), format!("\"{of}\""), "{uri}");
            }
        }
        let read = stack.post(&ask("resources/read", r#"{"uri":"file:///etc"}"#)).await;
        assert_eq!(at(&json(&read), "error/code"), "-31010");
    }
    let records = fresh.harness.records().await;
    let last = records.iter().rfind(|one| at(one, "kind") == r#""decision""#).unwrap();
    assert_eq!(at(last, "rule"), r#""(unknown resource)""#);
    let reference = r#"{"ref":{"type":"ref/resource","uri":"mail:///{id}"},"argument":{"name":"id","value":"1"}}"#;
    stack.post(&ask("completion/complete", reference)).await;
    assert_eq!(stack.upstreams[2].bodies_of("completion/complete").len(), 1);
}

#[tokio::test]
async fn prompts_are_prefixed_and_under_their_servers_rules() {
    let stack = stacked(vec![("notes", OPEN, rich("note")), ("mail", FEW, rich("mail"))]).await;
    let listed = stack.post(&ask("prompts/list", "{}")).await;
    assert_eq!(names(&listed, "prompts", "name"), ["notes__ask", "notes__secret", "mail__ask"]);
    let got = stack.post(&ask("prompts/get", r#"{"name":"mail__ask"}"#)).await;
    assert_eq!(at(&json(&got), "result/of"), r#""mail""#);
    assert!(stack.upstreams[1].bodies_of("prompts/get")[0].contains(r#""name":"ask""#));
    for name in ["mail__secret", "ask", "x__ask"] {
        let got = stack.post(&ask("prompts/get", &format!(r#"{{"name":"{name}"}}"#))).await;
        assert_eq!(at(&json(&got), "error/code"), "-31010", "{name}");
    }
    let read = stack.post(&ask("resources/read", r#"{"uri":"mail:1"}"#)).await;
    assert_eq!(at(&json(&read), "error/code"), "-31010");
    let reference =
        r#"{"ref":{"type":"ref/prompt","name":"mail__ask"},"argument":{"name":"x","value":"1"}}"#;
    stack.post(&ask("completion/complete", reference)).await;
    let sent = stack.upstreams[1].bodies_of("completion/complete");
    assert!(sent[0].contains(r#""name":"ask""#), "{sent:?}");
}

#[tokio::test]
async fn tasks_find_their_server_by_their_id() {
    let stack = stacked(vec![("notes", OPEN, rich("note")), ("mail", OPEN, rich("mail"))]).await;
    let revision = [("mcp-protocol-version", "2025-11-25")];
    let begun = ask("tools/call", r#"{"name":"mail__read","task":{}}"#);
    let begun = stack.post_with(&revision, &begun).await;
    let task = at(&json(&begun), "result/task/taskId");
    assert!(task.len() > 30, "{}", begun.text());
    let get = ask("tasks/get", &format!(r#"{{"taskId":{task}}}"#));
    let got = json(&stack.post_with(&revision, &get).await);
    assert_eq!(at(&got, "result/taskId"), task);
    assert_eq!(at(&got, "result/status"), r#""working""#);
    assert!(stack.upstreams[1].bodies_of("tasks/get")[0].contains(r#""taskId":"mail-t""#));
    assert!(stack.upstreams[0].bodies_of("tasks/get").is_empty());
    let listed = stack.post_with(&revision, &ask("tasks/list", "{}")).await;
    assert_eq!(names(&listed, "tasks", "taskId").len(), 1, "{}", listed.text());
    for wrong in ["mail-t", "x"] {
        let get = ask("tasks/get", &format!(r#"{{"taskId":"{wrong}"}}"#));
        let got = json(&stack.post_with(&revision, &get).await);
        assert_eq!(at(&got, "error/data/rule"), r#""(unknown task)""#);
    }
    until("nothing else", || stack.upstreams[1].bodies_of("tasks/get").len() == 1).await;
}

#[tokio::test]
async fn input_that_a_result_asks_for_goes_to_its_server_only() {
    let asking = || -> Responder {
        Box::new(|request| match request.rpc_method().as_deref() {
            Some("tools/call") if request.text().contains("inputResponses") => {
                Reply::result(request, r#"{"resultType":"complete","content":[]}"#)
            }
            Some("tools/call") => Reply::result(
                request,
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}},"requestState":"own"}"#,
            ),
            _ => modern_server(TOOLS)(request),
        })
    };
    let stack = stacked(vec![("notes", OPEN, asking()), ("mail", OPEN, asking())]).await;
    let asked = stack.modern("tools/call", Some("mail__read"), r#""name":"mail__read""#).await;
    let state = at(&json(&asked), "result/requestState");
    assert!(state.len() > 30, "{}", asked.text());
    let again =
        |name: &str| format!(r#""name":"{name}","inputResponses":{{}},"requestState":{state}"#);
    // State of one server, or of one tool, is worth nothing to another.
    for wrong in ["notes__read", "mail__drop"] {
        let refused = stack.modern("tools/call", Some(wrong), &again(wrong)).await;
        assert_eq!(at(&json(&refused), "error/code"), "-32602", "{wrong}");
    }
    let done = stack.modern("tools/call", Some("mail__read"), &again("mail__read")).await;
    assert_eq!(at(&json(&done), "result/resultType"), r#""complete""#, "{}", done.text());
    let sent = stack.upstreams[1].bodies_of("tools/call").pop().unwrap();
    assert!(sent.contains(r#""requestState":"own""#), "{sent}");
    assert!(stack.upstreams[0].bodies_of("tools/call").is_empty());
}

#[tokio::test]
async fn each_server_is_asked_for_news_of_its_own_resources() {
    let owning = |kind: &'static str| -> Responder {
        Box::new(move |request| match request.rpc_method().as_deref() {
            Some("resources/list") => Reply::result(
                request,
                &format!(
                    r#"{{"resultType":"complete","resources":[{{"uri":"{kind}:1","name":"a"}}],"ttlMs":0,"cacheScope":"private"}}"#
                ),
            ),
            _ => listening_server("")(request),
        })
    };
    let stack =
        stacked(vec![("notes", OPEN, owning("note")), ("mail", OPEN, owning("mail"))]).await;
    let wish = r#""notifications":{"resourceSubscriptions":["mail:1","note:1","none:1"]}"#;
    let body = modern_body("subscriptions/listen", wish, "{}");
    let headers = mirrors("subscriptions/listen", None);
    let bytes = request("POST", "/mcp", stack.harness.address, &headers, body.as_bytes());
    let mut client = RawClient::connect(stack.harness.address).await.unwrap();
    client.send(&bytes).await.unwrap();
    client.head().await.unwrap();
    hear(&mut client, "acknowledged").await;
    for (upstream, own) in stack.upstreams.iter().zip(["note:1", "mail:1"]) {
        let sent = upstream.bodies_of("subscriptions/listen");
        let expected = format!(r#""notifications":{{"resourceSubscriptions":["{own}"]}}"#);
        assert!(sent[0].contains(&expected), "{sent:?}");
    }
    let bad = modern_body("subscriptions/listen", "", "{}");
    let refused = stack.post_with(&headers, &bad).await;
    assert_eq!(at(&json(&refused), "error/code"), "-32602");
}
