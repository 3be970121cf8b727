//! Routing a message of a stack: to one server, to all of them, or to none.
//!
//! A server's name cannot contain `_`, so the first `__` of a tool's name is where the
//! server's name ends.

use std::sync::Arc;

use sluice_wire::{
    edit::{Edits, quote},
    json::{Document, Value},
    mcp::{Method, Target},
    rpc::{Id, Message},
};

use super::{
    Stack,
    lists::{List, PROMPTS, RESOURCES, TASKS, TEMPLATES, TOOLS},
    owners,
};
use crate::{
    judge::{is_notification, needs_id},
    refusal::Refusal,
    reserve::{Unserved, refuse_unknown_tool, refuse_unserved, shorten_method},
    seal::Purpose,
    snapshot::ServerState,
};

/// Between a server's name and what is the server's own.
pub(super) const SEPARATOR: &str = "__";

/// What is to be done with a message.
#[derive(Debug)]
pub(super) enum StackRoute {
    /// One server's: the message under the server's own names, if it is not the
    /// same, and the name that headers repeat.
    Here {
        server: Arc<ServerState>,
        spliced: Option<String>,
        own: Option<String>,
    },
    /// Told to every server there is a session with.
    Everybody,
    /// Taken, and nobody need know.
    Nobody,
    /// Answered at once.
    Result(String),
    Hello,
    Discover,
    List(&'static List),
    Level,
    Listen,
}

/// Finds out whom a message is for. What nobody is there for is denied, and
/// recorded.
pub(super) async fn route<'d>(
    stack: &Arc<Stack>,
    document: &'d Document,
    message: &Message<'d>,
) -> Result<StackRoute, Refusal> {
    match message {
        Message::Request { method, params, .. } => request(stack, document, method, *params).await,
        Message::Notification { method, .. } => notification(stack, method).await,
        Message::Response { id, .. } | Message::Failure { id: Some(id), .. } => {
            Ok(reply(stack, id))
        }
        Message::Failure { id: None, .. } => {
            Err(Refusal::Request("an answer needs the id of its request".into()))
        }
    }
}

async fn request<'d>(
    stack: &Arc<Stack>,
    document: &'d Document,
    method: &str,
    params: Option<Value<'d>>,
) -> Result<StackRoute, Refusal> {
    if method.starts_with("notifications/") {
        return Err(Refusal::Request(format!("`{method}` is a notification and has no id")));
    }
    let Some(known) = Method::find(method, stack.revision) else {
        return Err(refuse_unknown_method(stack, method).await);
    };
    let target =
        Target::read(known.class, params).map_err(|error| Refusal::Params(error.to_string()))?;
    match target {
        Target::Tool { name, .. } => match split(stack, name) {
            Some((server, own)) => splice(document, server, own, &["name"]),
            None => Err(refuse_unknown_tool(stack, name, params).await),
        },
        Target::Prompt(name) => {
            let Some((server, own)) = split(stack, name) else {
                return Err(refuse_unknown(stack, known.name, name, "(unknown prompt)").await);
            };
            let place: &[&str] =
                if known.name == "prompts/get" { &["name"] } else { &["ref", "name"] };
            splice(document, server, own, place)
        }
        Target::Resource(uri) => match owners::find_owner(stack, params, uri).await {
            Some(server) => {
                Ok(StackRoute::Here { server, spliced: None, own: Some(uri.to_owned()) })
            }
            None => Err(refuse_unknown(stack, known.name, uri, "(unknown resource)").await),
        },
        Target::Task(task) => {
            let opened = stack.gateway.keys.seal.open::<3>(Purpose::Task, task);
            let own = opened.filter(|[grant, _, _]| grant == stack.holder.id());
            match own.and_then(|[_, server, _]| stack.server(&server).cloned()) {
                Some(server) => Ok(StackRoute::Here { server, spliced: None, own: None }),
                None => Err(refuse_unknown(stack, known.name, task, "(unknown task)").await),
            }
        }
        Target::Nothing => route_to_all(known.name),
    }
}

/// What is asked of all servers.
fn route_to_all(method: &str) -> Result<StackRoute, Refusal> {
    Ok(match method {
        "initialize" => StackRoute::Hello,
        "server/discover" => StackRoute::Discover,
        "ping" => StackRoute::Result("{}".into()),
        "logging/setLevel" => StackRoute::Level,
        "subscriptions/listen" => StackRoute::Listen,
        "tools/list" => StackRoute::List(&TOOLS),
        "resources/list" => StackRoute::List(&RESOURCES),
        "resources/templates/list" => StackRoute::List(&TEMPLATES),
        "prompts/list" => StackRoute::List(&PROMPTS),
        "tasks/list" => StackRoute::List(&TASKS),
        method if method.starts_with("notifications/") => {
            return Err(Refusal::Request(format!("`{method}` is a notification and has no id")));
        }
        _ => return Err(Refusal::Internal),
    })
}

/// The server that a name begins with, and the rest, which is the server's own.
fn split<'n>(stack: &Stack, name: &'n str) -> Option<(Arc<ServerState>, &'n str)> {
    let (server, own) = name.split_once(SEPARATOR)?;
    Some((Arc::clone(stack.server(server)?), own))
}

/// The message with the server's own name at a place of its parameters.
fn splice(
    document: &Document,
    server: Arc<ServerState>,
    own: &str,
    place: &[&str],
) -> Result<StackRoute, Refusal> {
    let mut value = document.root().get("params");
    for step in place {
        value = value.and_then(|value| value.get(step));
    }
    let mut edits = Edits::new(document);
    edits.replace(value.ok_or(Refusal::Internal)?, quote(own));
    Ok(StackRoute::Here { server, spliced: Some(edits.finish()), own: Some(own.to_owned()) })
}

async fn notification(stack: &Stack, method: &str) -> Result<StackRoute, Refusal> {
    let Some(known) = Method::find(method, stack.revision) else {
        return match refuse_unknown_method(stack, method).await {
            Refusal::UnknownMethod { .. } if is_notification(method) => Ok(StackRoute::Nobody),
            Refusal::UnknownMethod { method, is_modern: false } => Err(needs_id(&method)),
            other => Err(other),
        };
    };
    if !is_notification(method) {
        return Err(needs_id(method));
    }
    Ok(match known.name {
        // Ids of a client's requests are its own, so only the server that has
        // the request knows the id.
        "notifications/cancelled" | "notifications/roots/list_changed" => StackRoute::Everybody,
        // It names a token of one server's, which others may have too.
        "notifications/progress" if stack.servers.len() == 1 => StackRoute::Everybody,
        // Each server is told as soon as it has introduced itself.
        _ => StackRoute::Nobody,
    })
}

/// A client's answer to a request of some server, which its id tells. One that
/// nobody waits for is ignored.
fn reply(stack: &Stack, id: &Id) -> StackRoute {
    // Whether it was handed out in this session is seen where it is used.
    let opened = match id {
        Id::String(sealed) => stack.gateway.keys.seal.open::<4>(Purpose::ServerRequest, sealed),
        Id::Integer(_) => None,
    };
    let own = opened.filter(|[grant, ..]| grant == stack.holder.id() && !stack.is_modern());
    match own.and_then(|[_, server, ..]| stack.server(&server).cloned()) {
        Some(server) => StackRoute::Here { server, spliced: None, own: None },
        None => StackRoute::Nobody,
    }
}

/// Denies what no server of the grant is there for.
async fn refuse_unknown(
    stack: &Stack,
    method: &'static str,
    target: &str,
    rule: &'static str,
) -> Refusal {
    let shown: String = target.chars().take(256).collect();
    let message = format!("`{shown}` is not available to this grant");
    let denied = Unserved { method: method.into(), tool: None, rule, message: &message };
    match refuse_unserved(stack, denied).await {
        Ok(decision) => Refusal::Denied { message, decision },
        Err(refusal) => refusal,
    }
}

/// Denies a method that no server can be found for.
async fn refuse_unknown_method(stack: &Stack, method: &str) -> Refusal {
    let kept = shorten_method(method);
    let message = format!("method `{kept}` is not available");
    let refusal = Refusal::UnknownMethod { method: kept.to_string(), is_modern: stack.is_modern() };
    let denied = Unserved { method: kept, tool: None, rule: "/methods", message: &message };
    match refuse_unserved(stack, denied).await {
        Ok(_) => refusal,
        Err(other) => other,
    }
}
