//! Routes a message of a stack: to one server, to all of them, or to none.
//!
//! A server's name cannot contain `_`, so it ends at the first `__` of a tool's name.

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

/// Separates a server's name from the item's name at that server.
pub(super) const SEPARATOR: &str = "__";

/// The destination of a message.
#[derive(Debug)]
pub(super) enum StackRoute {
    /// To one server. `spliced` is the message under the server's own names, if it
    /// differs; `own` is the name that headers repeat.
    Here {
        server: Arc<ServerState>,
        spliced: Option<String>,
        own: Option<String>,
    },
    /// To every server with an open session.
    Everybody,
    /// To no server: it is accepted and dropped.
    Nobody,
    /// To no server: this is the result.
    Result(String),
    Hello,
    Discover,
    List(&'static List),
    Level,
    Listen,
}

/// Finds the destination of a message. A request that no server can answer is denied and
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

/// The destination of a request that has no target.
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

/// Splits a name into its server and the server's own name.
fn split<'n>(stack: &Stack, name: &'n str) -> Option<(Arc<ServerState>, &'n str)> {
    let (server, own) = name.split_once(SEPARATOR)?;
    Some((Arc::clone(stack.server(server)?), own))
}

/// Replaces a name in the parameters by the server's own name.
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
        // The client chose the id of the request, so only the server that has the request
        // recognises it.
        "notifications/cancelled" | "notifications/roots/list_changed" => StackRoute::Everybody,
        // Another server may have issued the same token, so it is sent only if there is
        // one server.
        "notifications/progress" if stack.servers.len() == 1 => StackRoute::Everybody,
        // Each server got its own notification right after `initialize`.
        _ => StackRoute::Nobody,
    })
}

/// Routes a client's answer to the server whose request it answers, which the id names.
/// An answer with an unknown id is dropped.
fn reply(stack: &Stack, id: &Id) -> StackRoute {
    // Whether the id was issued in this session is checked when it is opened.
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

/// Denies a request for a target that no server of the grant has.
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

/// Denies an unknown method.
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
