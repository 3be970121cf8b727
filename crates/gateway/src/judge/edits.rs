//! Edits before sending: sealed ids and states are replaced by the server's, and client
//! capabilities that the policy forbids are removed.

use std::sync::LazyLock;

use sluice_policy::{AccessRequest, ServerRequest};
use sluice_wire::{
    edit::{self, Edits, Fate, quote},
    json::{Document, Value},
    look_alike::Governed,
    mcp::META_CAPABILITIES,
};

use crate::{exchange::Exchange, refusal::Refusal};

/// A client's capabilities, with the policy's names for them.
static DECLARED: LazyLock<Vec<(ServerRequest, Governed)>> = LazyLock::new(|| {
    ServerRequest::ALL.into_iter().map(|request| (request, Governed::new(request.name()))).collect()
});

/// A parameter to replace, and its new value.
pub(super) type Replaced = (&'static str, String);

/// The message with a parameter replaced and without client capabilities that the policy
/// forbids; `None` if nothing changes.
pub(super) fn edit(
    exchange: &Exchange,
    document: &Document,
    params: Option<Value<'_>>,
    replaced: Option<&Replaced>,
) -> Result<Option<String>, Refusal> {
    let mut edits = Edits::new(document);
    let params = params.and(document.root().get("params"));
    if let Some((name, value)) = replaced {
        let place = params.and_then(|params| params.get(name)).ok_or(Refusal::Internal)?;
        edits.replace(place, quote(value));
    }
    let declared = if exchange.is_modern() {
        params.and_then(|params| params.get("_meta")).and_then(|meta| meta.get(META_CAPABILITIES))
    } else {
        params.and_then(|params| params.get("capabilities"))
    };
    if let Some(declared) = declared
        && let Some(rest) = without_denied(exchange, declared)
    {
        edits.replace(declared, rest);
    }
    Ok((!edits.is_empty()).then(|| edits.finish()))
}

/// A client's capabilities without those the policy forbids; `None` if all are allowed.
fn without_denied(exchange: &Exchange, declared: Value<'_>) -> Option<String> {
    let is_denied = |key: &str| {
        let of = |(_, name): &&(_, Governed)| name.name() == key || name.resembles(key);
        DECLARED
            .iter()
            .find(of)
            .is_some_and(|(request, _)| !exchange.lets_pass(AccessRequest::ServerRequest(*request)))
    };
    let has_denied = declared.members()?.any(|(key, _)| key.as_str().is_some_and(is_denied));
    let fate = |key: &str, _| if is_denied(key) { Fate::Drop } else { Fate::Keep };
    has_denied.then(|| edit::object(declared, fate, &[]))
}
