//! Builds successful responses: JSON, empty ones, event streams. Errors are built by
//! `refusal`.

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use sluice_http::headers::EVENT_STREAM;
use sluice_wire::rpc::Id;

use crate::body::ClientBody;

/// A response whose body is one JSON text.
pub(crate) fn json(status: StatusCode, text: impl Into<bytes::Bytes>) -> Response<ClientBody> {
    let mut response = Response::new(ClientBody::whole(text));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

/// A JSON text with status 200.
pub(crate) fn ok(text: impl Into<bytes::Bytes>) -> Response<ClientBody> {
    json(StatusCode::OK, text)
}

/// The result of a request, given as JSON.
pub(crate) fn result(id: Option<&Id>, result: &str) -> Response<ClientBody> {
    let id = id.map_or_else(|| "null".into(), Id::to_json);
    ok(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// A message that needs no answer was accepted.
pub(crate) fn empty_accepted() -> Response<ClientBody> {
    empty(StatusCode::ACCEPTED)
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response<ClientBody> {
    let mut response = Response::new(ClientBody::empty());
    *response.status_mut() = status;
    response
}

/// A stream of events.
pub(crate) fn event_stream(body: ClientBody) -> Response<ClientBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
