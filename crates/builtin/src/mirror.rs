//! The protocol version of a request, and the check of headers that repeat its content.
//!
//! A modern request names its version itself and repeats its target in headers. Both must agree,
//! because a proxy may have decided by the headers. For a legacy request only the version header is
//! checked.

use http::HeaderMap;
use sluice_wire::{
    json::{Kind, Value},
    mcp::{Era, META_CAPABILITIES, META_VERSION, Revision, text_of_header},
};

use super::fault::Fault;

/// The protocol version of a request, if its headers are valid.
pub(super) fn revision(
    headers: &HeaderMap,
    method: &str,
    params: Option<Value<'_>>,
) -> Result<Revision, Fault> {
    let meta = params.and_then(|params| params.get("_meta"));
    let says_modern = meta.is_some_and(|meta| meta.get(META_VERSION).is_some());
    if method == "initialize" && !says_modern {
        // It starts a legacy session, and the version is in its parameters.
        return Ok(Revision::UNSAID);
    }
    let header = only(headers, "mcp-protocol-version")?;
    if says_modern {
        return modern(headers, method, params, meta);
    }
    match header.map(|name| (name, Revision::from_name(name))) {
        None => Ok(Revision::UNSAID),
        Some((name, None)) => Err(Fault::version(name)),
        Some((_, Some(named))) => match named.era() {
            Era::Legacy => Ok(named),
            Era::Modern => modern(headers, method, params, meta),
        },
    }
}

/// The protocol version of a request without headers, in a session with this negotiated legacy
/// version.
pub(super) fn revision_without_headers(
    agreed: Revision,
    params: Option<Value<'_>>,
) -> Result<Revision, Fault> {
    let meta = params.and_then(|params| params.get("_meta"));
    if meta.is_none_or(|meta| meta.get(META_VERSION).is_none()) {
        return Ok(agreed);
    }
    modern_revision(complete(meta)?)
}

/// The version in a modern request, if it has all required parts.
fn complete(meta: Option<Value<'_>>) -> Result<&str, Fault> {
    let said = |key: &str| meta.and_then(|meta| meta.get(key));
    let version = said(META_VERSION).and_then(Value::as_str).ok_or_else(|| {
        Fault::unsaid(format!("`params._meta[\"{META_VERSION}\"]` must be a string"))
    })?;
    if said(META_CAPABILITIES).map(Value::kind) != Some(Kind::Object) {
        let problem = format!("`params._meta[\"{META_CAPABILITIES}\"]` must be an object");
        return Err(Fault::unsaid(problem));
    }
    Ok(version)
}

fn modern_revision(version: &str) -> Result<Revision, Fault> {
    Revision::from_name(version)
        .filter(|revision| revision.era() == Era::Modern)
        .ok_or_else(|| Fault::version(version))
}

fn modern(
    headers: &HeaderMap,
    method: &str,
    params: Option<Value<'_>>,
    meta: Option<Value<'_>>,
) -> Result<Revision, Fault> {
    let version = complete(meta)?;
    check_mirror(headers, "MCP-Protocol-Version", version)?;
    check_mirror(headers, "Mcp-Method", method)?;
    let name = match method {
        "tools/call" | "prompts/get" => params.and_then(|params| params.get("name")),
        "resources/read" => params.and_then(|params| params.get("uri")),
        _ => None,
    };
    if let Some(name) = name.and_then(Value::as_str) {
        check_mirror(headers, "Mcp-Name", name)?;
    }
    modern_revision(version)
}

/// Whether the header is present once and equals the value in the body.
fn check_mirror(headers: &HeaderMap, name: &'static str, body: &str) -> Result<(), Fault> {
    let Some(header) = only(headers, name)? else {
        return Err(Fault::header(format!("header `{name}` is missing")));
    };
    // Only a name may contain characters that a header cannot.
    let agrees =
        header == body || (name == "Mcp-Name" && text_of_header(header).as_deref() == Some(body));
    if agrees {
        return Ok(());
    }
    Err(Fault::header(format!("header `{name}` does not say what the body says")))
}

/// The header's value, if present. A repeated header is refused, because each reader might use
/// another one.
fn only<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<Option<&'h str>, Fault> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Fault::header(format!("header `{name}` is there more than once")));
    }
    let text = value.map(|value| {
        value.to_str().map_err(|_| Fault::header(format!("header `{name}` is not plain ASCII")))
    });
    text.transpose()
}
