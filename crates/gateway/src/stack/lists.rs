//! Lists of all servers merged into one: the pages of every server, in the order of the
//! grant, with names prefixed by the server's.

use std::{collections::HashSet, sync::Arc};

use http::{HeaderValue, Response, StatusCode, header};
use sluice_http::{
    headers::{EITHER_ANSWER, METHOD, NAME},
    offload,
};
use sluice_wire::{
    edit::{self, Fate, quote},
    json::{Document, Value},
    rpc::{Id, Message},
};

use super::{
    Stack,
    gather::{Parts, gather_parts},
    merge::{info, meta},
    route::SEPARATOR,
    server_session,
};
use crate::{body::ClientBody, call, receive, refusal::Refusal, response, snapshot::ServerState};

/// More pages than any legitimate list has.
const MOST_PAGES: u32 = 200;
/// Owners of resources that are noted before other tasks run.
const NOTED_AT_ONCE: usize = 1000;

/// One kind of list.
#[derive(Debug)]
pub(super) struct List {
    pub(super) method: &'static str,
    member: &'static str,
    naming: Naming,
}

/// How items of several servers are kept distinct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// By a name that is prefixed by the server's name.
    Prefixed,
    /// By a member that is not changed. If several servers have the same value, the first
    /// one owns it.
    Unique(&'static str),
    /// By ids that the gateway has sealed.
    Sealed,
}

pub(super) static TOOLS: List =
    List { method: "tools/list", member: "tools", naming: Naming::Prefixed };
pub(super) static PROMPTS: List =
    List { method: "prompts/list", member: "prompts", naming: Naming::Prefixed };
pub(super) static RESOURCES: List =
    List { method: "resources/list", member: "resources", naming: Naming::Unique("uri") };
pub(super) static TEMPLATES: List = List {
    method: "resources/templates/list",
    member: "resourceTemplates",
    naming: Naming::Unique("uriTemplate"),
};
pub(super) static TASKS: List =
    List { method: "tasks/list", member: "tasks", naming: Naming::Sealed };

/// The list request to each server.
#[derive(Debug, Clone)]
pub(super) struct ListRequest {
    list: &'static List,
    id: Id,
    /// The client's parameters as JSON, without a cursor.
    params: Arc<str>,
}

impl ListRequest {
    pub(super) fn new(list: &'static List, id: Id, params: String) -> ListRequest {
        ListRequest { list, id, params: params.into() }
    }
}

/// One server's part of a list.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The key and the JSON of each item, under the name that clients see.
    pub(super) items: Vec<(String, String)>,
    /// How long clients may cache it, in milliseconds.
    kept: u64,
    bytes: usize,
    /// Whether the server supports this list at all.
    pub(super) is_there: bool,
}

/// A part after one more page.
enum Page {
    Last(Part),
    More(Part, String),
}

impl Part {
    /// Adds the items of a page; `None` if it is unusable.
    fn read(mut self, server: &str, list: &List, page: &Document) -> Option<Page> {
        let result = match Message::read(page) {
            Ok(Message::Response { result, .. }) => result,
            Ok(Message::Failure { error, .. }) => {
                let code = error.get("code").and_then(Value::as_number);
                return (code == Some("-32601")).then(|| Page::Last(Part::default()));
            }
            _ => return None,
        };
        for item in result.get(list.member).and_then(Value::items)? {
            let (key, json) = name_item(server, list.naming, item)?;
            self.bytes += key.len() + json.len();
            self.items.push((key, json));
        }
        let kept = result.get("ttlMs").and_then(Value::as_number);
        self.kept = self.kept.min(kept.and_then(|text| text.parse().ok()).unwrap_or(0));
        let cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        Some(match cursor {
            Some(cursor) => Page::More(self, cursor),
            None => Page::Last(self),
        })
    }
}

/// Answers with the lists of all servers.
pub(super) async fn list(
    stack: &Arc<Stack>,
    list: &'static List,
    document: &Document,
    id: &Id,
) -> Result<Response<ClientBody>, Refusal> {
    let params = document.root().get("params");
    if params.is_some_and(|params| params.get("cursor").is_some()) {
        return Err(Refusal::Params("there is one page only: leave `params.cursor` out".into()));
    }
    let params = params.map_or("{}", Value::raw).to_owned();
    let parts = gather(stack, &ListRequest::new(list, id.clone(), params)).await;
    let bytes = parts.answered.iter().map(|(_, part)| part.bytes).sum();
    let (own, id) = (Arc::clone(stack), id.clone());
    let merging = move || response::result(Some(&id), &merge_parts(&own, list, parts));
    offload::by_size(bytes, merging).await.ok_or(Refusal::Internal)
}

/// Fetches the part of each server.
pub(super) async fn gather(stack: &Arc<Stack>, asked: &ListRequest) -> Parts<Part> {
    let parts = gather_parts(stack, |stack, server| {
        let asked = asked.clone();
        async move { part(&stack, &server, &asked).await }
    })
    .await;
    if matches!(asked.list.naming, Naming::Unique(_)) {
        // The first server is noted last, so that it overwrites the others.
        for (server, part) in parts.answered.iter().rev() {
            let grant = Arc::clone(&stack.holder.reference.id);
            let pair = (grant, Arc::clone(&server.link.name));
            for some in part.items.chunks(NOTED_AT_ONCE) {
                for (key, _) in some {
                    stack.gateway.sessions.stacks.note_owner(&pair, key);
                }
                tokio::task::yield_now().await;
            }
        }
    }
    parts
}

fn merge_parts(stack: &Stack, list: &List, mut parts: Parts<Part>) -> String {
    let (mut seen, mut items) = (HashSet::new(), Vec::new());
    let (mut left, mut kept) = (stack.gateway.settings.answer, u64::MAX);
    for (server, part) in parts.answered {
        let Some(rest) = left.checked_sub(part.bytes) else {
            tracing::warn!(
                server = &*server.link.name,
                list.method,
                "a server's list is left out: the merged list is too long"
            );
            parts.missing.push(Arc::clone(&server.link.name));
            continue;
        };
        left = rest;
        kept = kept.min(part.kept);
        let own = part
            .items
            .into_iter()
            .filter(|(key, _)| list.naming == Naming::Sealed || seen.insert(key.clone()));
        items.extend(own.map(|(_, json)| json));
    }
    let (member, items) = (list.member, items.join(","));
    if !stack.is_modern() {
        return format!(r#"{{"{member}":[{items}]{}}}"#, meta(&parts.missing, None));
    }
    // A part that is missing now may be available soon.
    let kept = if parts.missing.is_empty() && kept < u64::MAX { kept } else { 0 };
    let meta = meta(&parts.missing, Some(&info()));
    format!(
        r#"{{"{member}":[{items}],"resultType":"complete","ttlMs":{kept},"cacheScope":"private"{meta}}}"#
    )
}

/// Fetches all pages of one server's list; `None` if they are unavailable.
async fn part(stack: &Stack, server: &Arc<ServerState>, asked: &ListRequest) -> Option<Part> {
    let mut part = Part { is_there: true, kept: u64::MAX, ..Part::default() };
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = page(stack, server, asked, cursor.as_deref()).await?;
        let page_size = page.text().len();
        let (name, list) = (Arc::clone(&server.link.name), asked.list);
        let reading = move || part.read(&name, list, &page);
        (part, cursor) = match offload::by_size(page_size, reading).await?? {
            Page::More(part, cursor) => (part, Some(cursor)),
            Page::Last(part) => return Some(part),
        };
        if part.bytes > stack.gateway.settings.answer {
            return None;
        }
    }
    None
}

/// Fetches one page, as a client of this server alone would.
async fn page(
    stack: &Stack,
    server: &Arc<ServerState>,
    asked: &ListRequest,
    cursor: Option<&str>,
) -> Option<Document> {
    let params = Document::parse(&*asked.params, &stack.gateway.settings.bounds).ok()?;
    let added: Vec<_> = cursor.map(|cursor| ("cursor", quote(cursor))).into_iter().collect();
    let params = edit::object(params.root(), |_, _| Fate::Keep, &added);
    let (id, method) = (asked.id.to_json(), asked.list.method);
    let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
    let mut again = true;
    loop {
        let document =
            receive::parse(&stack.gateway.settings.bounds, message.clone().into_bytes()).ok()?;
        let mut exchange = server_session::open_exchange(stack, server, None).await;
        exchange.headers.insert(header::ACCEPT, EITHER_ANSWER);
        if stack.is_modern() {
            exchange.headers.insert(METHOD, HeaderValue::from_static(method));
            exchange.headers.remove(NAME);
        }
        let answer = call::answer(exchange, document).await;
        // The server has lost the session, and nothing was done in it yet.
        let is_lost = stack.session.is_some() && answer.status() == StatusCode::NOT_FOUND;
        if !(is_lost && std::mem::take(&mut again)) {
            return server_session::read_answer(&stack.gateway, answer, &asked.id).await;
        }
        server_session::forget(stack, server).await;
    }
}

/// The key of an item, and its JSON under the name that clients see.
fn name_item(server: &str, naming: Naming, item: Value<'_>) -> Option<(String, String)> {
    match naming {
        Naming::Prefixed => {
            let name = item.get("name").and_then(Value::as_str)?;
            let name = format!("{server}{SEPARATOR}{name}");
            let own = |key: &str, _| match key {
                "name" => Fate::Become(quote(&name)),
                _ => Fate::Keep,
            };
            let json = edit::object(item, own, &[]);
            Some((name, json))
        }
        Naming::Unique(member) => {
            let key = item.get(member).and_then(Value::as_str)?;
            Some((key.to_owned(), item.raw().to_owned()))
        }
        Naming::Sealed => Some((String::new(), item.raw().to_owned())),
    }
}
