//! `initialize`, `server/discover` and `logging/setLevel` for all servers of a grant.

use std::sync::Arc;

use http::{Response, StatusCode};
use sluice_http::{headers::SESSION, offload};
use sluice_wire::{
    edit::{Edits, quote},
    json::{Document, Value},
    mcp::{Era, Revision},
    rpc::{Id, Message},
};

use super::{
    Stack,
    client_state::{Hello, StackSession},
    gather::{Parts, gather_parts},
    merge::{info, merge, meta},
    server_session,
};
use crate::{body::ClientBody, call, receive, refusal::Refusal, response, snapshot::ServerState};

/// The longest `initialize` message that is kept for servers that are contacted later.
const LONGEST_HELLO: usize = 64 << 10;

/// The list capabilities, which are declared because lists change when servers come and
/// go.
const LISTS: [(&str, &str); 3] = [
    ("tools", r#"{"tools":{"listChanged":true}}"#),
    ("resources", r#"{"resources":{"listChanged":true}}"#),
    ("prompts", r#"{"prompts":{"listChanged":true}}"#),
];

/// Begins a session with all servers.
pub(super) async fn initialize(
    stack: Arc<Stack>,
    document: &Document,
    id: &Id,
) -> Result<Response<ClientBody>, Refusal> {
    let session = Arc::new(StackSession::new(&stack.gateway, hello(document, id)?));
    let (gateway, holder) = (Arc::clone(&stack.gateway), Arc::clone(&stack.holder));
    let parts = gather_parts(&stack, |stack, server| {
        let session = Arc::clone(&session);
        async move { server_session::introduce(&stack, &session, &server).await }
    })
    .await;
    let revision = quote(session.hello.revision.name());
    let missing = meta(&parts.missing, None);
    let introduction = introduce_all(parts).await?;
    let result = format!(
        r#"{{"protocolVersion":{revision},{introduction},"serverInfo":{}{missing}}}"#,
        info(),
    );
    let kept = gateway.sessions.stacks.keep(&gateway, &holder, &session);
    let (sealed, forgotten) = kept.ok_or(Refusal::Internal)?;
    for session in forgotten {
        let stack = Arc::clone(&stack);
        tokio::spawn(async move { server_session::end_sessions(&stack, &session).await });
    }
    let mut answer = response::result(Some(id), &result);
    answer.headers_mut().insert(SESSION, sealed);
    Ok(answer)
}

/// A client's `initialize` as it is sent to servers, with a protocol version that is
/// known.
fn hello(document: &Document, id: &Id) -> Result<Hello, Refusal> {
    let asked = document.root().get("params").and_then(|params| params.get("protocolVersion"));
    let asked = asked.filter(|asked| asked.as_str().is_some());
    let asked =
        asked.ok_or_else(|| Refusal::Params("`params.protocolVersion` must be a string".into()))?;
    let known = asked.as_str().and_then(Revision::from_name);
    let known = known.filter(|revision| revision.era() == Era::Legacy);
    let revision = known.unwrap_or(Revision::V2025_11_25);
    let mut edits = Edits::new(document);
    if known.is_none() {
        edits.replace(asked, quote(revision.name()));
    }
    let text = edits.finish();
    if text.len() > LONGEST_HELLO {
        return Err(Refusal::Params(format!(
            "an introduction has at most {LONGEST_HELLO} bytes here"
        )));
    }
    Ok(Hello { text, id: id.clone(), revision })
}

/// Discovers what all servers can do together, in the modern era. If one of them speaks
/// only the legacy era, discovery fails, so that a client of both eras falls back to
/// `initialize`.
pub(super) async fn discover(
    stack: &Arc<Stack>,
    document: &Document,
    id: &Id,
) -> Result<Response<ClientBody>, Refusal> {
    let message: Arc<str> = document.text().into();
    let parts = gather_parts(stack, |stack, server| {
        let (message, id) = (Arc::clone(&message), id.clone());
        async move { discover_server(&stack, &server, &message, &id).await }
    })
    .await;
    let is_legacy = |said: &Document| said.root().get("result").is_none();
    if parts.answered.iter().any(|(_, said)| is_legacy(said)) {
        return Err(Refusal::LegacyServer);
    }
    let versions: Vec<_> = Revision::modern().map(|revision| quote(revision.name())).collect();
    let who = info();
    let missing = meta(&parts.missing, Some(&who));
    let introduction = introduce_all(parts).await?;
    let result = format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],{introduction},"serverInfo":{who},"ttlMs":0,"cacheScope":"private"{missing}}}"#,
        versions.join(","),
    );
    Ok(response::result(Some(id), &result))
}

/// The discovery result of one server, or its refusal of the era; `None` if the answer is
/// unusable.
async fn discover_server(
    stack: &Stack,
    server: &Arc<ServerState>,
    message: &str,
    id: &Id,
) -> Option<Document> {
    let document =
        receive::parse(&stack.gateway.settings.bounds, message.as_bytes().to_vec()).ok()?;
    let answer =
        call::answer(server_session::open_exchange(stack, server, None).await, document).await;
    let status = answer.status();
    let said = server_session::read_answer(&stack.gateway, answer, id).await?;
    let is_usable = match Message::read(&said) {
        Ok(Message::Response { .. }) => true,
        Ok(Message::Failure { error, .. }) => {
            let code = error.get("code").and_then(Value::as_number);
            status == StatusCode::BAD_REQUEST && code == Some("-32601")
        }
        _ => false,
    };
    is_usable.then_some(said)
}

/// Merges what all servers say of themselves; if that is much, elsewhere.
async fn introduce_all(parts: Parts<Document>) -> Result<String, Refusal> {
    let bytes = parts.answered.iter().map(|(_, said)| said.text().len()).sum();
    offload::by_size(bytes, move || introduction(&parts)).await.ok_or(Refusal::Internal)
}

/// Capabilities and instructions of all servers, as members of a result.
fn introduction(parts: &Parts<Document>) -> String {
    let of = |name: &'static str| {
        parts.answered.iter().filter_map(move |(server, said)| {
            Some((&*server.link.name, said.root().get("result")?.get(name)?))
        })
    };
    let mut capabilities: Vec<_> = of("capabilities").map(|(_, value)| value).collect();
    let is_said = |name: &str| capabilities.iter().any(|value| value.get(name).is_some());
    // A server that has not answered may have any of these lists.
    let lists: Vec<_> = LISTS
        .iter()
        .filter(|(name, _)| *name == "tools" || !parts.missing.is_empty() || is_said(name))
        .filter_map(|(_, text)| Document::parse(*text, &sluice_wire::json::Bounds::default()).ok())
        .collect();
    capabilities.extend(lists.iter().map(Document::root));
    let instructions: Vec<_> = of("instructions")
        .filter_map(|(server, text)| Some(format!("# {server}\n\n{}", text.as_str()?)))
        .filter(|text| !text.ends_with("\n\n"))
        .collect();
    let mut members = format!(r#""capabilities":{}"#, merge(&capabilities));
    if !instructions.is_empty() {
        members.extend([r#","instructions":"#, &quote(&instructions.join("\n\n"))]);
    }
    members
}

/// Sets the log level at every server; servers without logging may refuse it.
pub(super) async fn level(
    stack: &Arc<Stack>,
    document: &Document,
    id: &Id,
) -> Result<Response<ClientBody>, Refusal> {
    let message: Arc<str> = document.text().into();
    if let Some(session) = &stack.session {
        *session.level() = Some(Arc::clone(&message)).filter(|text| text.len() <= LONGEST_LEVEL);
    }
    gather_parts(stack, |stack, server| {
        let (message, id) = (Arc::clone(&message), id.clone());
        async move {
            let document =
                receive::parse(&stack.gateway.settings.bounds, message.as_bytes().to_vec()).ok()?;
            let answer =
                call::answer(server_session::open_exchange(&stack, &server, None).await, document)
                    .await;
            server_session::read_answer(&stack.gateway, answer, &id).await
        }
    })
    .await;
    Ok(response::result(Some(id), "{}"))
}

const LONGEST_LEVEL: usize = 1024;
