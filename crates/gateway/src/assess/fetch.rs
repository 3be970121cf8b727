//! Asking a server for its tools, as a client of our own, in whichever era it speaks.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use sluice_upstream::{AnswerBody, sse::Splitter};
use sluice_wire::{
    edit::quoted,
    json::{Bounds, Document, Value},
    mcp::Revision,
    rpc::{Id, Message},
};

use crate::{
    receive::collect,
    snapshot::Link,
    spoken::{META_CAPABILITIES, META_VERSION},
};

/// More pages than any honest list has.
const MOST_PAGES: u32 = 200;

/// How the server is spoken to.
enum Manner {
    Modern,
    Legacy { session: Option<HeaderValue>, revision: String },
}

/// All pages of a server's list of tools.
pub(super) async fn pages(link: &Link, bounds: &Bounds) -> Result<Vec<Document>, String> {
    let fetched = tokio::time::timeout(link.timeout, asked(link, bounds)).await;
    fetched.map_err(|_| "it did not answer in time".to_owned())?
}

async fn asked(link: &Link, bounds: &Bounds) -> Result<Vec<Document>, String> {
    let manner = introduced(link, bounds).await?;
    let mut pages = Vec::new();
    let mut cursor: Option<String> = None;
    for number in 1..=MOST_PAGES {
        let cursor_json = cursor.as_ref().map(|cursor| format!(r#""cursor":{}"#, quoted(cursor)));
        let page = exchange(
            link,
            bounds,
            &manner,
            number,
            "tools/list",
            cursor_json.as_deref().unwrap_or_default(),
        )
        .await?;
        let next = page.root().get("result").and_then(|result| result.get("nextCursor"));
        cursor = next.and_then(Value::as_str).map(str::to_owned);
        pages.push(page);
        if cursor.is_none() {
            goodbye(link, &manner).await;
            return Ok(pages);
        }
    }
    Err(format!("its list has more than {MOST_PAGES} pages"))
}

/// Finds out which era the server speaks, and begins.
async fn introduced(link: &Link, bounds: &Bounds) -> Result<Manner, String> {
    match exchange(link, bounds, &Manner::Modern, 0, "server/discover", "").await {
        Ok(_) => return Ok(Manner::Modern),
        Err(why) if why.starts_with("no connection") => return Err(why),
        Err(_) => {}
    }
    let nobody = Manner::Legacy { session: None, revision: Revision::V2025_11_25.name().into() };
    let hello = format!(
        r#""protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"sluicegate","version":"{}"}}"#,
        Revision::V2025_11_25.name(),
        env!("CARGO_PKG_VERSION"),
    );
    let answer =
        send(link, &nobody, &message(&nobody, 0, "initialize", &hello), "initialize").await?;
    let session = answer.headers().get("mcp-session-id").cloned();
    let introduction = response(answer, bounds, 0).await?;
    let agreed = introduction.root().get("result").and_then(|result| result.get("protocolVersion"));
    let revision = agreed.and_then(Value::as_str).unwrap_or(Revision::UNSAID.name()).to_owned();
    let manner = Manner::Legacy { session, revision };
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    send(link, &manner, ready, "notifications/initialized").await?;
    Ok(manner)
}

/// Ends the session, if there is one; nothing depends on it.
async fn goodbye(link: &Link, manner: &Manner) {
    if let Manner::Legacy { session: Some(_), .. } = manner {
        let mut request = request(link, manner, "", "");
        *request.method_mut() = http::Method::DELETE;
        let _ = link.upstream.send(request).await;
    }
}

async fn exchange(
    link: &Link,
    bounds: &Bounds,
    manner: &Manner,
    number: u32,
    method: &str,
    params: &str,
) -> Result<Document, String> {
    let answer = send(link, manner, &message(manner, number, method, params), method).await?;
    response(answer, bounds, number).await
}

fn message(manner: &Manner, number: u32, method: &str, params: &str) -> String {
    let meta = match manner {
        Manner::Modern => {
            let revision = Revision::V2026_07_28.name();
            format!(
                r#""_meta":{{"{META_VERSION}":"{revision}","{META_CAPABILITIES}":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"sluicegate","version":"{}"}}}}"#,
                env!("CARGO_PKG_VERSION")
            )
        }
        Manner::Legacy { .. } => String::new(),
    };
    let comma = if meta.is_empty() || params.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{{{params}{comma}{meta}}}}}"#
    )
}

async fn send(
    link: &Link,
    manner: &Manner,
    message: &str,
    method: &str,
) -> Result<Response<AnswerBody>, String> {
    let answer = link
        .upstream
        .send(request(link, manner, message, method))
        .await
        .map_err(|error| error.to_string())?;
    if !answer.status().is_success() {
        return Err(format!("it answered {method} with status {}", answer.status().as_u16()));
    }
    Ok(answer)
}

fn request(link: &Link, manner: &Manner, message: &str, method: &str) -> Request<Bytes> {
    let mut request = Request::new(Bytes::copy_from_slice(message.as_bytes()));
    *request.method_mut() = http::Method::POST;
    let headers = request.headers_mut();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    set("content-type", "application/json");
    set("accept", "application/json, text/event-stream");
    match manner {
        Manner::Modern => {
            set("mcp-protocol-version", Revision::V2026_07_28.name());
            set("mcp-method", method);
        }
        Manner::Legacy { session, revision } => {
            if method != "initialize" {
                set("mcp-protocol-version", revision);
            }
            if let Some(session) = session {
                headers.insert(HeaderName::from_static("mcp-session-id"), session.clone());
            }
        }
    }
    for (name, value) in &link.headers {
        headers.insert(name.clone(), value.clone());
    }
    request
}

/// The result that answers a request, in whichever form it comes.
async fn response(
    answer: Response<AnswerBody>,
    bounds: &Bounds,
    number: u32,
) -> Result<Document, String> {
    let stated = answer
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let is_stream = stated.starts_with("text/event-stream");
    let id = Id::Integer(number.to_string());
    if is_stream {
        return streamed(answer.into_body(), bounds, &id).await;
    }
    let bytes = collect(answer.into_body(), bounds.bytes)
        .await
        .map_err(|_| "its answer did not arrive whole".to_owned())?;
    let document = Document::parse(bytes, bounds)
        .map_err(|refusal| format!("its answer is not valid JSON: {refusal}"))?;
    if is_answer(&document, &id) { Ok(document) } else { Err("its answer is none".into()) }
}

async fn streamed(mut body: AnswerBody, bounds: &Bounds, id: &Id) -> Result<Document, String> {
    let mut splitter = Splitter::new(bounds.bytes);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| "its answer broke off".to_owned())?.into_data() else {
            continue;
        };
        let mut blocks = Vec::new();
        splitter.push(&data, |block| blocks.push(block)).map_err(|error| error.to_string())?;
        for block in blocks {
            let event = block.read().map_err(|error| error.to_string())?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
            let document = Document::parse(data, bounds)
                .map_err(|refusal| format!("an event is not valid JSON: {refusal}"))?;
            if is_answer(&document, id) {
                return Ok(document);
            }
        }
    }
    Err("its answer ended too soon".into())
}

fn is_answer(document: &Document, id: &Id) -> bool {
    matches!(Message::read(document), Ok(Message::Response { id: found, .. }) if found == *id)
}
