//! Reading the body of a message: whole, within bounds, and only as JSON.

use http::{HeaderMap, header};
use http_body::Body as _;
use hyper::body::Incoming;
use sluice_http::offload;
use sluice_wire::json::{self, Bounds, Document, Reason};

use crate::{
    budget::{Portion, ReadFailure, collect},
    gateway::Inner,
    grants::Holder,
    refusal::Refusal,
};

/// Refuses bodies that are not plain JSON.
pub(crate) fn check_media_type(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Refusal::MediaType("compressed bodies are not accepted"));
    }
    let stated =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (media_type, parameters) = stated.split_once(';').unwrap_or((stated, ""));
    let is_utf8 =
        parameters.split(';').map(str::trim).filter(|parameter| !parameter.is_empty()).all(
            |parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                !name.trim().eq_ignore_ascii_case("charset")
                    || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            },
        );
    if media_type.trim().eq_ignore_ascii_case("application/json") && is_utf8 {
        Ok(())
    } else {
        Err(Refusal::MediaType("the body must be `application/json`"))
    }
}

/// The body of a request, with what it takes of the budget until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) portion: Portion,
}

/// Collects a body; refuses it as soon as it is too long, or if other long messages leave
/// it no room.
pub(crate) async fn body(
    gateway: &Inner,
    holder: &Holder,
    body: Incoming,
) -> Result<RequestBody, Refusal> {
    let settings = &gateway.settings;
    let most = settings.bounds.bytes;
    if body.size_hint().lower() > most as u64 {
        return Err(Refusal::TooLarge(most));
    }
    let late = |_| Refusal::Request("the body did not arrive in time".into());
    let mut portion = gateway.bytes.open(&holder.reference.id);
    let collecting = collect(body, most, &mut portion);
    let collected = tokio::time::timeout(settings.times.body, collecting).await.map_err(late)?;
    let bytes = collected.map_err(|failure| match failure {
        ReadFailure::TooLong => Refusal::TooLarge(most),
        ReadFailure::Lost => Refusal::Request("the body did not arrive whole".into()),
        ReadFailure::NoRoom(refusal) => refusal,
    })?;
    Ok(RequestBody { bytes, portion })
}

/// Reads the bytes as JSON, strictly.
pub(crate) fn parse(bounds: &Bounds, bytes: Vec<u8>) -> Result<Document, Refusal> {
    Document::parse(bytes, bounds).map_err(|refusal| refuse(&refusal))
}

/// The same for a body that may be large: then it is read on another thread, so that other calls
/// of this one do not wait.
pub(crate) async fn parse_body(bounds: &Bounds, bytes: Vec<u8>) -> Result<Document, Refusal> {
    let parsed = offload::parse(bytes, bounds).await.ok_or(Refusal::Internal)?;
    parsed.map_err(|refusal| refuse(&refusal))
}

fn refuse(refusal: &json::Refusal) -> Refusal {
    match refusal.reason {
        Reason::TooLong(most) => Refusal::TooLarge(most),
        // Valid JSON that exceeds our limits, or that could be read in two ways.
        Reason::DuplicateKey(_)
        | Reason::TooDeep(_)
        | Reason::LongString(_)
        | Reason::LongNumber(_)
        | Reason::TooManyMembers(_)
        | Reason::TooManyNodes(_) => Refusal::Request(refusal.to_string()),
        _ => Refusal::Json(refusal.to_string()),
    }
}
