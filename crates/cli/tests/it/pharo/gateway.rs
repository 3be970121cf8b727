//! `builtin = "pharo"` behind the gateway: judged, recorded, and as quick to let
//! go of the image as by itself.

use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use sluice_http::{AnswerBody, HttpUpstream, address::Reach};
use sluice_upstream::{
    Upstream,
    client::{Client, Declares},
};
use sluice_wire::json::Bounds;

use super::{Image, meta, until};
use crate::{sluice::Folder, up::Up};

const TOKEN: &str = "sg_0123456789abcdef";
const PERMISSIVE: &str = r#"{"version":"1","default":"deny","tools":{"*":{}}}"#;
const RECOMMENDED: &str = include_str!("../../../../../policies/pharo.json");

/// A gateway before an image.
struct Gateway {
    up: Up,
    /// Ends after the gateway, whose folder it is.
    _folder: Folder,
}

fn configured(options: &str, policy: &str) -> Folder {
    let folder = Folder::with("policy.json", policy);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.pharo]\nbuiltin = \"pharo\"\noptions = {{ {options} }}\n\
             [policies.p]\nserver = \"pharo\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"pharo\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n"
        ),
    );
    folder
}

impl Gateway {
    fn start(image: &Image, policy: &str) -> Gateway {
        let folder = configured(&format!("port = {}", image.port()), policy);
        let up = tokio::task::block_in_place(|| folder.up(&[]));
        Gateway { up, _folder: folder }
    }

    fn upstream(&self) -> Upstream {
        let reach = Reach { allowed: Vec::new(), loopback: true };
        let url = format!("http://{}/mcp/pharo", self.up.listen);
        Upstream::Http(HttpUpstream::new(&url, reach).unwrap())
    }

    async fn post(&self, headers: &[(&str, &str)], message: &Value) -> Response<AnswerBody> {
        let mut request = http::Request::post("/")
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(message.to_string().into()).unwrap();
        self.upstream().send(request).await.unwrap()
    }

    /// Records of calls that have come out.
    fn outcomes(&self) -> Vec<Value> {
        let export =
            || self.up.run(&["log", "export", "--tool", "eval", "--kind", "outcome"]).exits(0).out;
        let exported = tokio::task::block_in_place(export);
        exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn credential() -> HeaderMap {
    let value = HeaderValue::try_from(format!("Bearer {TOKEN}")).unwrap();
    HeaderMap::from_iter([(header::AUTHORIZATION, value)])
}

fn eval(id: u32, code: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "eval", "arguments": {"code": code}},
    })
}

const MODERN: [(&str, &str); 3] =
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "eval")];

fn modern_eval(id: u32, code: &str) -> Value {
    let mut call = eval(id, code);
    call["params"]["_meta"] = meta();
    call
}

async fn json_of(response: Response<AnswerBody>) -> Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_reaches_the_image_through_the_gateway() {
    let image = Image::start().await;
    let gateway = Gateway::start(&image, PERMISSIVE);
    let (upstream, headers) = (gateway.upstream(), credential());
    let bounds = Bounds { number: 1 << 20, ..Bounds::default() };
    let mut client =
        Client::introduce(&upstream, &headers, bounds, Declares::Nothing).await.unwrap();
    assert_eq!(client.revision(), "2026-07-28");
    let list = client.request("tools/list", "", None).await.unwrap();
    assert_eq!(list.root().get("result").unwrap().get("tools").unwrap().items().unwrap().len(), 22);
    let call = r#""name":"eval","arguments":{"code":"1000 factorial"}"#;
    let answer = client.request("tools/call", call, Some("eval")).await.unwrap();
    let object = answer.root().get("result").unwrap().get("structuredContent").unwrap();
    assert_eq!(object.get("result").unwrap().as_number().map(str::len), Some(2568));
    let shown = client.request("tools/call", r#""name":"read_screen""#, Some("read_screen")).await;
    assert!(shown.unwrap().text().contains("image/png"));
    // And by a client of the legacy era.
    let answer = json_of(gateway.post(&[], &eval(7, "'Hello', ' World'")).await).await;
    assert_eq!(answer["result"]["structuredContent"]["result"], "Hello World");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_recorded_although_the_caller_is_not_told() {
    let image = Image::start().await;
    let gateway = Gateway::start(&image, PERMISSIVE);
    let mut count = 0;
    for (code, fails) in [("1 / 0", true), ("Object new", true), ("1 + 1", false)] {
        for (headers, call) in [(&[][..], eval(1, code)), (&MODERN[..], modern_eval(1, code))] {
            let answer = json_of(gateway.post(headers, &call).await).await;
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            count += 1;
            until("it is recorded", || gateway.outcomes().len() == count).await;
            let record = gateway.outcomes().pop().unwrap();
            assert_eq!(record["upstream"]["is_error"], fails, "{code} {record}");
            assert_eq!(record["outcome"], if fails { "error" } else { "allow" }, "{record}");
        }
    }
}

/// The next event, without `data: `.
async fn event(body: &mut AnswerBody) -> Value {
    let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&data).unwrap();
    serde_json::from_str(text.trim().strip_prefix("data: ").unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_passes_the_gateway_in_both_eras() {
    let image = Image::start().await;
    let gateway = Gateway::start(&image, PERMISSIVE);
    for (headers, mut call) in [
        (&[][..], eval(1, "SisGate wait. 1 / 0")),
        (&MODERN[..], modern_eval(2, "SisGate wait. 1 / 0")),
    ] {
        call["params"]["_meta"]["progressToken"] = json!(5);
        let answer = gateway.post(headers, &call).await;
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut body = answer.into_body();
        let report = event(&mut body).await;
        assert_eq!(report["params"]["progressToken"], 5);
        image.open_gate();
        let mut last = report;
        while last.get("id").is_none() {
            last = event(&mut body).await;
        }
        assert_eq!((&last["id"], &last["result"]["isError"]), (&call["id"], &json!(false)));
    }
    // A failure at the end of a stream is recorded like any other.
    until("both are recorded", || gateway.outcomes().len() == 2).await;
    assert!(gateway.outcomes().iter().all(|record| record["upstream"]["is_error"] == true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_called_off_in_both_eras() {
    let image = Image::start().await;
    let gateway = Gateway::start(&image, PERMISSIVE);
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    });
    let session = |response: Response<AnswerBody>| {
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    };
    let own = session(gateway.post(&[], &hello).await);
    let other = session(gateway.post(&[], &hello).await);
    let halt = eval(9, "self halt");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    let waiting = async { json_of(gateway.post(&[("mcp-session-id", &own)], &halt).await).await };
    let cancelling = async {
        until("it waits", || image.under_way() == 1).await;
        // Nobody else's cancellation counts.
        gateway.post(&[("mcp-session-id", &other)], &cancel).await;
        gateway.post(&[], &cancel).await;
        assert_eq!(image.under_way(), 1);
        gateway.post(&[("mcp-session-id", &own)], &cancel).await;
        until("the image is let go", || image.under_way() == 0).await;
    };
    let (answer, ()) = tokio::join!(waiting, cancelling);
    assert_eq!(answer["error"]["code"], -32800, "{answer}");
    // A modern client cancels by going away.
    let halt = modern_eval(10, "self halt");
    tokio::select! {
        answer = gateway.post(&MODERN, &halt) => panic!("{answer:?}"),
        () = until("it waits", || image.under_way() == 1) => {}
    }
    until("the image is let go", || image.under_way() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recommended_policy_holds() {
    let image = Image::start().await;
    let gateway = Gateway::start(&image, RECOMMENDED);
    let text = |answer: Value| answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    for _ in 0..10 {
        let answer = json_of(gateway.post(&[], &eval(1, "1 + 1")).await).await;
        assert!(text(answer).contains("success"));
    }
    // The minute may have turned meanwhile, so that ten more fit.
    let mut last = String::new();
    for _ in 0..11 {
        last = text(json_of(gateway.post(&[], &eval(1, "1 + 1")).await).await);
        if last.starts_with("[POLICY DENIED] Rate limit reached: 10 per minute") {
            break;
        }
    }
    assert!(last.starts_with("[POLICY DENIED]"), "{last}");
    let mut call = eval(2, "");
    call["params"] =
        json!({"name": "apply_settings", "arguments": {"settings": {"stack_size": 1}}});
    let held = text(json_of(gateway.post(&[], &call).await).await);
    assert!(held.starts_with("[APPROVAL REQUIRED]"), "{held}");
    call["params"] = json!({"name": "get_settings"});
    let settings = json_of(gateway.post(&[], &call).await).await;
    assert_eq!(settings["result"]["structuredContent"]["result"]["stackSize"], 100);
}

#[test]
fn options_are_checked_at_the_start() {
    for (options, expected) in [
        ("prot = 1", "unknown option `prot`"),
        ("port = 0", "option `port` must be a number from 1 to 65535"),
        ("timeout = 30", "option `timeout` must be a span of time such as `30s`"),
        ("host = \"a/b\"", "`a/b` is not a valid host"),
    ] {
        let folder = configured(options, PERMISSIVE);
        let ran = folder
            .run(&["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .exits(2);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}
