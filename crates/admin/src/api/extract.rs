//! Extractors: names in paths, queries, JSON and policies in bodies. A request that
//! cannot be read is refused with a problem.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;
use sluice_policy::Format;
use sluice_store::{Actor, Name};

use super::Problem;
use crate::auth;

/// The actor that makes the request.
pub(super) struct RequestActor(pub(super) Actor);

impl<S: Send + Sync> FromRequestParts<S> for RequestActor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestActor, Problem> {
        Ok(RequestActor(auth::actor(&parts.extensions)))
    }
}

/// A JSON body.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T>, Problem> {
        if media_type(request.headers()) != "application/json" {
            return Err(Problem::media_type("`application/json`"));
        }
        let body = read_body(request, state).await?;
        let read = serde_json::from_slice(&body);
        read.map(JsonBody).map_err(|error| Problem::request(format!("the body is wrong: {error}")))
    }
}

/// A body that is a policy.
pub(super) struct PolicyText {
    pub(super) text: Vec<u8>,
    pub(super) format: Format,
}

impl<S: Send + Sync> FromRequest<S> for PolicyText {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<PolicyText, Problem> {
        let format = match media_type(request.headers()).as_str() {
            "application/json" => Format::Json,
            "application/yaml" | "application/x-yaml" | "text/yaml" => Format::Yaml,
            _ => return Err(Problem::media_type("`application/json` or `application/yaml`")),
        };
        Ok(PolicyText { text: read_body(request, state).await?.into(), format })
    }
}

async fn read_body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(),
        _ => Problem::request("the body could not be read"),
    })
}

/// The media type of a body, lower case and without parameters.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// The parameters of a query.
pub(super) struct QueryParams<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<QueryParams<T>, Problem> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|Query(asked)| QueryParams(asked)).map_err(|rejection| {
            Problem::request(format!("the query is wrong: {}", rejection.body_text()))
        })
    }
}

/// The parameters of a path.
pub(super) struct PathParams<T>(pub(super) T);

impl<S: Send + Sync> FromRequestParts<S> for PathParams<Name> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathParams<Name>, Problem> {
        let text: String = read_path(parts, state).await?;
        read_name(&text).map(PathParams)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams<(Name, Name)> {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &S,
    ) -> Result<PathParams<(Name, Name)>, Problem> {
        let (one, other): (String, String) = read_path(parts, state).await?;
        Ok(PathParams((read_name(&one)?, read_name(&other)?)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams<String> {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &S,
    ) -> Result<PathParams<String>, Problem> {
        read_path(parts, state).await.map(PathParams)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams<(String, String)> {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &S,
    ) -> Result<PathParams<(String, String)>, Problem> {
        read_path(parts, state).await.map(PathParams)
    }
}

async fn read_path<S: Send + Sync, T: DeserializeOwned + Send>(
    parts: &mut Parts,
    state: &S,
) -> Result<T, Problem> {
    let read = Path::<T>::from_request_parts(parts, state).await;
    read.map(|Path(named)| named).map_err(|_| Problem::request("the path cannot be read"))
}

fn read_name(text: &str) -> Result<Name, Problem> {
    Name::new(text).map_err(|error| Problem::request(error.to_string()))
}
