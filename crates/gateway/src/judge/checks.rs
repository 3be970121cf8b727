//! Checks of a request's parameters that apply regardless of the policy.

use std::sync::LazyLock;

use sluice_wire::{
    json::Value,
    look_alike::Governed,
    mcp::{META_CAPABILITIES, META_VERSION},
};

use super::ToolCall;
use crate::{
    assess::ToolList,
    exchange::Exchange,
    protocol_version::{argument_text, decode_mirrored},
    refusal::Refusal,
};

/// Parameters that change what a request does. No other parameter may resemble one of
/// them.
static GOVERNED: LazyLock<[Governed; 5]> = LazyLock::new(|| {
    ["requestState", "inputResponses", "_meta", "task", "capabilities"].map(Governed::new)
});

/// The same for members of `_meta`.
static GOVERNED_META: LazyLock<[Governed; 2]> =
    LazyLock::new(|| [META_VERSION, META_CAPABILITIES].map(Governed::new));

/// Refuses parameters that a server may mistake for one of these.
pub(super) fn refuse_look_alikes(params: Option<Value<'_>>) -> Result<(), Refusal> {
    let meta = params.and_then(|params| params.get("_meta"));
    for (object, governed) in [(params, &GOVERNED[..]), (meta, &GOVERNED_META[..])] {
        for (key, _) in object.and_then(Value::members).into_iter().flatten() {
            let key = key.as_str().unwrap_or_default();
            if let Some(meant) = governed.iter().find(|governed| governed.resembles(key)) {
                let meant = meant.name();
                return Err(Refusal::Params(format!(
                    "a parameter looks like `{meant}`: send `{meant}` only"
                )));
            }
        }
    }
    Ok(())
}

/// Checks that headers which repeat arguments have the arguments' values.
pub(super) fn check_mirrored(
    exchange: &Exchange,
    list: Option<&ToolList>,
    call: ToolCall<'_>,
) -> Result<(), Refusal> {
    if !exchange.is_modern() {
        return Ok(());
    }
    for repeated in list.map_or(&[][..], |list| list.mirrored_arguments(call.tool)) {
        let said = argument_text(call.arguments, &repeated.argument);
        if decode_mirrored(&exchange.headers, &*repeated.header) != said {
            let (header, argument) = (&repeated.header, &repeated.argument);
            return Err(Refusal::HeaderMismatch(format!(
                "header `{header}` is not what argument `{argument}` says"
            )));
        }
    }
    Ok(())
}
