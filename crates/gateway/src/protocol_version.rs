//! The protocol version of a message, and the check that headers which repeat the body
//! (`Mcp-Method`, `Mcp-Name`) agree with it.
//!
//! The body is authoritative. A modern request whose headers disagree is refused, unless the
//! policy denies it, which comes first; on legacy requests such headers have no meaning and
//! are not forwarded.

use http::{HeaderMap, header::AsHeaderName};
use sluice_http::headers::{METHOD, NAME, REVISION};
use sluice_wire::{
    json::Value,
    mcp::{Era, META_CAPABILITIES, META_VERSION, Revision, text_of_header},
};

use crate::refusal::Refusal;

/// The protocol version of a message.
pub(crate) fn revision(
    headers: &HeaderMap,
    method: Option<&str>,
    params: Option<Value<'_>>,
) -> Result<Revision, Refusal> {
    let header = headers.get(REVISION).and_then(|value| value.to_str().ok());
    let meta = params.and_then(|params| params.get("_meta"));
    let Some(version) = meta.and_then(|meta| meta.get(META_VERSION)) else {
        return assume_legacy(header, method);
    };
    let Some(version) = version.as_str() else {
        return Err(Refusal::Meta(format!("`_meta[\"{META_VERSION}\"]` must be a string")));
    };
    if header != Some(version) {
        return Err(mismatch("MCP-Protocol-Version", "the body's `_meta`"));
    }
    let known = Revision::from_name(version).filter(|revision| revision.era() == Era::Modern);
    known.ok_or_else(|| Refusal::UnsupportedVersion(version.chars().take(64).collect()))
}

/// Checks that a modern request declares its client's capabilities, as each must. Servers
/// check that themselves; this is for requests that the gateway answers in a server's
/// place.
pub(crate) fn check_capabilities(params: Option<Value<'_>>) -> Result<(), Refusal> {
    let meta = params.and_then(|params| params.get("_meta"));
    let declared = meta.and_then(|meta| meta.get(META_CAPABILITIES));
    match declared.and_then(Value::members) {
        Some(_) => Ok(()),
        None => Err(Refusal::Meta(format!("`_meta[\"{META_CAPABILITIES}\"]` must be an object"))),
    }
}

/// Treats a message without a protocol version in its body as a legacy one.
fn assume_legacy(header: Option<&str>, method: Option<&str>) -> Result<Revision, Refusal> {
    match (header, header.and_then(Revision::from_name)) {
        (Some(_), Some(revision)) if revision.era() == Era::Modern => Err(Refusal::Meta(format!(
            "a request of {} names it in `_meta[\"{META_VERSION}\"]`",
            revision.name()
        ))),
        (Some(_), Some(revision)) => Ok(revision),
        // In `initialize`, the version is only a proposal.
        _ if method == Some("initialize") => Ok(Revision::V2025_11_25),
        (Some(other), None) => Err(Refusal::Request(format!("unknown protocol version `{other}`"))),
        (None, _) => Ok(Revision::UNSAID),
    }
}

/// The protocol version of a request without a message. The modern era has no such
/// requests.
pub(crate) fn without_message(headers: &HeaderMap) -> Result<Revision, Refusal> {
    let version = headers.get(REVISION).and_then(|value| value.to_str().ok());
    match version.map(|version| (version, Revision::from_name(version))) {
        None => Ok(Revision::UNSAID),
        Some((_, Some(revision))) if revision.era() == Era::Legacy => Ok(revision),
        Some((_, Some(_))) => Err(Refusal::MethodNotAllowed),
        Some((version, None)) => {
            Err(Refusal::Request(format!("unknown protocol version `{version}`")))
        }
    }
}

/// Checks that the headers which repeat a modern message agree with it.
///
/// A message that the policy denies is not checked: the answer would show which names the
/// policy lets pass, and the denial would not be recorded.
pub(crate) fn check_mirrors(
    headers: &HeaderMap,
    method: &str,
    params: Option<Value<'_>>,
) -> Result<(), Refusal> {
    if decode_mirrored(headers, METHOD).as_deref() != Some(method) {
        return Err(mismatch("Mcp-Method", "`method`"));
    }
    if let Some(target) = mirrored_target(method) {
        let named = params.and_then(|params| params.get(target)).and_then(Value::as_str);
        if named.is_some() && decode_mirrored(headers, NAME).as_deref() != named {
            return Err(mismatch("Mcp-Name", "`params`"));
        }
    }
    Ok(())
}

/// The parameter that `Mcp-Name` repeats.
pub(crate) fn mirrored_target(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

fn mismatch(header: &str, place: &str) -> Refusal {
    Refusal::HeaderMismatch(format!("header `{header}` is missing or is not what {place} says"))
}

/// The value of a header that repeats an argument; `None` if there is nothing to repeat.
pub(crate) fn argument_text(arguments: Option<Value<'_>>, name: &str) -> Option<String> {
    let value = arguments?.get(name).filter(|value| !value.is_null())?;
    let other = || value.items().is_none().then(|| value.raw().to_owned());
    value.as_str().map(str::to_owned).or_else(other)
}

/// Decodes the value of a mirrored header.
pub(crate) fn decode_mirrored(headers: &HeaderMap, name: impl AsHeaderName) -> Option<String> {
    text_of_header(headers.get(name)?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};
    use sluice_wire::{
        json::{Bounds, Document},
        mcp::{Era, Revision},
    };

    use super::{check_mirrors, revision};
    use crate::refusal::Refusal;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    const MODERN: &str =
        r#"{"name": "eval", "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}"#;

    fn check(pairs: &[(&'static str, &str)], params: &str, expected: Result<Revision, i32>) {
        let document = Document::parse(params, &Bounds::default()).unwrap();
        let (headers, root) = (headers(pairs), Some(document.root()));
        let found = revision(&headers, Some("tools/call"), root).and_then(|revision| {
            let is_modern = revision.era() == Era::Modern;
            let checked = is_modern.then(|| check_mirrors(&headers, "tools/call", root));
            checked.unwrap_or(Ok(())).map(|()| revision)
        });
        let code = |refusal: Refusal| {
            let json = refusal.to_json(None);
            let code =
                json.split("\"code\":").nth(1).unwrap().split(',').next().unwrap().to_owned();
            code.parse().unwrap()
        };
        assert_eq!(found.map_err(code), expected, "{pairs:?} {params}");
    }

    #[test]
    fn the_body_determines_the_protocol_version_and_headers_must_agree() {
        let all = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "eval"),
        ];
        check(&all, MODERN, Ok(Revision::V2026_07_28));
        for left_out in 0..3 {
            let mut some = all.to_vec();
            some.remove(left_out);
            check(&some, MODERN, Err(-32020));
        }
        for (place, wrong) in [(0, "2025-11-25"), (1, "tools/list"), (2, "other")] {
            let mut some = all.to_vec();
            some[place].1 = wrong;
            check(&some, MODERN, Err(-32020));
        }
        let future = MODERN.replace("2026-07-28", "2027-01-01");
        check(&[("mcp-protocol-version", "2027-01-01")], &future, Err(-32022));
        check(&[("mcp-protocol-version", "2026-07-28")], "{}", Err(-32602));
    }

    #[test]
    fn legacy_requests_need_not_state_a_protocol_version() {
        check(&[], "{}", Ok(Revision::UNSAID));
        check(&[("mcp-method", "nonsense")], "{}", Ok(Revision::UNSAID));
        check(&[("mcp-protocol-version", "2025-06-18")], "{}", Ok(Revision::V2025_06_18));
        check(&[("mcp-protocol-version", "2020-01-01")], "{}", Err(-32600));
    }
}
