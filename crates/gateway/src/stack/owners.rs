//! Finds the server that owns a resource. URIs are not prefixed, because they also occur
//! inside message text, where they cannot be rewritten; the owner is looked up in the servers'
//! lists.

use std::sync::Arc;

use sluice_store::new_id;
use sluice_wire::{
    edit::{self, Fate},
    json::Value,
    rpc::Id,
};

use super::{
    Stack,
    gather::Parts,
    lists::{ListRequest, Part, RESOURCES, TEMPLATES, gather},
};
use crate::snapshot::ServerState;

/// The server that owns a resource or a resource template.
pub(super) async fn find_owner(
    stack: &Arc<Stack>,
    params: Option<Value<'_>>,
    uri: &str,
) -> Option<Arc<ServerState>> {
    find_owners(stack, params, &[uri]).await.pop().flatten()
}

/// The owner of each of these: the first server that lists it, else the first with a matching
/// template, else the only server that has resources. All servers are asked at most once for
/// their lists, however many URIs are unknown.
pub(super) async fn find_owners(
    stack: &Arc<Stack>,
    params: Option<Value<'_>>,
    uris: &[&str],
) -> Vec<Option<Arc<ServerState>>> {
    if let [only] = &*stack.servers {
        return uris.iter().map(|_| Some(Arc::clone(only))).collect();
    }
    if uris.iter().all(|uri| find_known(stack, uri).is_some()) {
        return uris.iter().map(|uri| find_known(stack, uri)).collect();
    }
    // Ids must be unique within a session.
    let id = || Id::String(format!("sluicegate-{}", new_id(stack.at)));
    let resources = ListRequest::new(&RESOURCES, id(), meta_only(params));
    let templates = ListRequest::new(&TEMPLATES, id(), meta_only(params));
    let (resources, templates) = tokio::join!(gather(stack, &resources), gather(stack, &templates));
    let mut owners = Vec::with_capacity(uris.len());
    for uri in uris {
        owners.push(choose_owner(stack, &resources, &templates, uri));
        // There may be many templates.
        tokio::task::yield_now().await;
    }
    owners
}

fn choose_owner(
    stack: &Stack,
    resources: &Parts<Part>,
    templates: &Parts<Part>,
    uri: &str,
) -> Option<Arc<ServerState>> {
    if let Some(known) = find_known(stack, uri) {
        return Some(known);
    }
    let fitting = templates
        .answered
        .iter()
        .find(|(_, part)| part.items.iter().any(|(template, _)| fits(template, uri)));
    if let Some((server, _)) = fitting {
        let grant = Arc::clone(&stack.holder.reference.id);
        stack.gateway.sessions.stacks.note_owner(&(grant, Arc::clone(&server.link.name)), uri);
        return Some(Arc::clone(server));
    }
    let mut having = resources.answered.iter().filter(|(_, part)| part.is_there);
    let only = having.next().map(|(server, _)| Arc::clone(server));
    only.filter(|_| having.next().is_none() && resources.missing.is_empty())
}

/// The remembered owner, if the grant still includes that server.
fn find_known(stack: &Stack, uri: &str) -> Option<Arc<ServerState>> {
    let name = stack.gateway.sessions.stacks.owner(&stack.holder.reference.id, uri)?;
    stack.server(&name).cloned()
}

/// The `_meta` of a request's parameters, without its progress token.
fn meta_only(params: Option<Value<'_>>) -> String {
    let progress = |key: &str, _| match key {
        "progressToken" => Fate::Drop,
        _ => Fate::Keep,
    };
    match params.and_then(|params| params.get("_meta")) {
        Some(meta) if meta.members().is_some() => {
            format!(r#"{{"_meta":{}}}"#, edit::object(meta, progress, &[]))
        }
        _ => "{}".into(),
    }
}

/// Whether a URI matches a template: it contains the text outside the braces, in order.
fn fits(template: &str, uri: &str) -> bool {
    let mut parts = template.split('{');
    let first = parts.next().unwrap_or_default();
    let literals: Option<Vec<_>> =
        parts.map(|part| part.split_once('}').map(|(_, literal)| literal)).collect();
    let Some(literals) = literals else { return false };
    let Some((last, between)) = literals.split_last() else { return uri == template };
    let rest = uri.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    let found = between.iter().try_fold(rest, |rest, literal| {
        let (_, after) = rest?.split_once(literal)?;
        Some(Some(after))
    });
    found.flatten().is_some()
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn templates_match_the_uris_they_can_produce() {
        for (template, uri, expected) in [
            ("note:///{id}", "note:///1", true),
            ("note:///{id}", "file:///1", false),
            ("note:///{id}/text", "note:///1/text", true),
            ("note:///{id}/text", "note:///1/text/2", false),
            ("note:///{id}/text", "note:///a/text/b/text", true),
            ("{scheme}://x", "a://x", true),
            ("{scheme}://x", "a://y", false),
            ("a:{x}-{y}", "a:1-2", true),
            ("a:{x}-{y}", "a:1", false),
            ("a:b", "a:b", true),
            ("a:b", "a:bc", false),
            ("a:{x", "a:1", false),
        ] {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
    }
}
