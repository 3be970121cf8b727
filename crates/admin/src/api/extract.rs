//! Extractors: names in paths, queries, JSON and policies in bodies. A request that
//! cannot be read is refused with a problem.

use std::{net::IpAddr, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use sluice_policy::Format;
use sluice_store::{Actor, Name, Patch};
use tokio::time::timeout;

use super::Problem;
use crate::{
    auth::{self, Caller},
    ops::Expected,
};

/// The actor that makes the request.
pub(super) struct RequestActor(pub(super) Actor);

impl<S: Send + Sync> FromRequestParts<S> for RequestActor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestActor, Problem> {
        find_caller(parts).map(|caller| RequestActor(caller.actor()))
    }
}

/// The address that the request comes from.
pub(crate) struct SourceAddress(pub(crate) IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for SourceAddress {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<SourceAddress, Problem> {
        Ok(SourceAddress(auth::source(&parts.extensions)))
    }
}

/// Who makes the request.
pub(super) struct RequestCaller(pub(super) Caller);

impl<S: Send + Sync> FromRequestParts<S> for RequestCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestCaller, Problem> {
        find_caller(parts).cloned().map(RequestCaller)
    }
}

/// The caller whom access control has found.
fn find_caller(parts: &Parts) -> Result<&Caller, Problem> {
    parts.extensions.get().ok_or_else(|| Problem::token("sign in, or send a token"))
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

/// Reads a property that is present; null removes it.
pub(super) fn read_patch<'de, T, D>(deserializer: D) -> Result<Patch<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.map_or(Patch::Remove, Patch::Set))
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

/// How long the body of a request may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) async fn read_body<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<Bytes, Problem> {
    let read = timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await;
    let read = read.map_err(|_| Problem::request("the body did not arrive in time"))?;
    read.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(),
        _ => Problem::request("the body could not be read"),
    })
}

/// The media type of a body, lower case and without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// The version of an object that the request expects.
pub(super) struct Preconditions(pub(super) Expected);

impl<S: Send + Sync> FromRequestParts<S> for Preconditions {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Preconditions, Problem> {
        parse_preconditions(&parts.headers).map(Preconditions)
    }
}

/// What `If-Match` and `If-None-Match` say about the current version.
fn parse_preconditions(headers: &HeaderMap) -> Result<Expected, Problem> {
    let tags = |name| {
        let values: Result<Vec<_>, _> =
            headers.get_all(name).iter().map(|one| one.to_str()).collect();
        values.map(|values| values.join(",")).map_err(|_| Problem::request("a tag cannot be read"))
    };
    let (matching, none_matching) = (tags(header::IF_MATCH)?, tags(header::IF_NONE_MATCH)?);
    match (matching.trim(), none_matching.trim()) {
        ("", "") => Ok(Expected::Anything),
        ("", "*") => Ok(Expected::Nothing),
        ("*", "") => Ok(Expected::Something),
        (tags, "") => {
            let version = |tag: &str| tag.trim().trim_matches('"').to_owned();
            Ok(Expected::Versions(tags.split(',').map(version).collect()))
        }
        _ => Err(Problem::request("`If-None-Match` can only be `*`, and stand alone")),
    }
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
pub(crate) struct PathParams<T>(pub(crate) T);

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
