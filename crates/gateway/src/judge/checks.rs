//! Checks of a request's parameters that apply regardless of the policy.

use std::sync::LazyLock;

use sluice_wire::{
    json::Value,
    look_alike::Governed,
    mcp::{META_CAPABILITIES, META_VERSION, Method, MethodClass, Target},
    rpc::Message,
};

use super::{Ruling, ToolCall};
use crate::{
    assess::ToolList,
    exchange::Exchange,
    protocol_version::{argument_text, check_mirrors, decode_mirrored},
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

/// The tool that a message calls, if the call passes every check that needs no tool
/// definitions: nothing is asked of a server for a call that is refused anyway.
pub(crate) fn called_tool<'m>(exchange: &Exchange, message: &Message<'m>) -> Option<&'m str> {
    let Message::Request { method, params, .. } = message else { return None };
    let known = Method::find(method, exchange.revision)?;
    if known.class != MethodClass::ToolCall || refuse_look_alikes(*params).is_err() {
        return None;
    }
    match Target::read(known.class, *params) {
        Ok(Target::Tool { name, .. }) => Some(name),
        _ => None,
    }
}

/// Checks that the headers of a modern message agree with it, unless the policy refuses it.
pub(super) fn check_headers(
    exchange: &Exchange,
    method: &str,
    params: Option<Value<'_>>,
    ruling: &Ruling<'_>,
) -> Result<(), Refusal> {
    if !exchange.is_modern() || ruling.is_refused() {
        return Ok(());
    }
    check_mirrors(&exchange.headers, method, params)?;
    match ruling {
        Ruling::Tool(ruling) => check_arguments(exchange, ruling.list.as_deref(), ruling.call),
        Ruling::Open | Ruling::Access(_) | Ruling::LookAlike { .. } => Ok(()),
    }
}

/// Checks that headers which repeat arguments have the arguments' values.
fn check_arguments(
    exchange: &Exchange,
    list: Option<&ToolList>,
    call: ToolCall<'_>,
) -> Result<(), Refusal> {
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
