//! Errors as RFC 9457 problems. This is the one place that gives each refusal
//! its status.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use sluice_store::StoreError;

use crate::ops::Refused;

/// An answer that is not what was asked for.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    /// What programs tell problems apart by.
    code: &'static str,
    title: &'static str,
    /// What people are told, with a hint on its own line.
    message: String,
    /// Where a policy is wrong.
    places: Vec<sluice_policy::Problem>,
}

#[derive(Serialize)]
struct Shown<'p> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'p str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    problems: &'p [sluice_policy::Problem],
}

impl Problem {
    fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        message: impl Into<String>,
    ) -> Problem {
        Problem { status, code, title, message: message.into(), places: Vec::new() }
    }

    pub(crate) fn no_such_path() -> Problem {
        let message = "nothing is at this path";
        Problem::new(StatusCode::NOT_FOUND, "no-such-path", "No such path", message)
    }

    pub(crate) fn not_allowed() -> Problem {
        let message = "this path does not take this method";
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "Method not allowed", message)
    }

    pub(crate) fn host() -> Problem {
        let message = "this gateway is not known by the name in `Host`\nhint: add it to `allowed_hosts` in the configuration file";
        Problem::new(StatusCode::FORBIDDEN, "host", "Host not allowed", message)
    }

    pub(crate) fn origin() -> Problem {
        let message = "pages of this origin may not call\nhint: add it to `allowed_origins` in the configuration file";
        Problem::new(StatusCode::FORBIDDEN, "origin", "Origin not allowed", message)
    }

    pub(crate) fn token(message: &str) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "token", "Admin token required", message)
    }

    pub(crate) fn request(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "request", "Bad request", message)
    }

    pub(crate) fn too_large() -> Problem {
        let message = "the body is longer than this gateway takes";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Too large", message)
    }

    pub(crate) fn media_type(expected: &str) -> Problem {
        let message = format!("`Content-Type` must be {expected}");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Problem::new(status, "media-type", "Unsupported media type", message)
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        let (status, code, title) = match &refused {
            Refused::Missing(_) => (StatusCode::NOT_FOUND, "missing", "Not found"),
            Refused::Declared(_) => {
                (StatusCode::CONFLICT, "declared", "Declared in the configuration file")
            }
            Refused::Conflict(_) => (StatusCode::CONFLICT, "conflict", "Conflict"),
            Refused::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Not valid"),
            Refused::Problems(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "policy", "The policy has problems")
            }
            Refused::Stale(_) => (StatusCode::PRECONDITION_FAILED, "stale", "Changed meanwhile"),
            Refused::Command => (StatusCode::FORBIDDEN, "command", "Commands are not taken"),
            Refused::Silent { .. } => (StatusCode::BAD_GATEWAY, "upstream", "No answer"),
            Refused::Store(StoreError::Overloaded | StoreError::Stopped) => {
                (StatusCode::SERVICE_UNAVAILABLE, "store", "The store cannot be used")
            }
            Refused::Catalog(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "catalog", "The catalogue cannot be read")
            }
            Refused::Store(_) | Refused::Lost => {
                (StatusCode::INTERNAL_SERVER_ERROR, "store", "The gateway failed")
            }
        };
        let message = refused.to_string();
        let places = match refused {
            Refused::Problems(places) => places,
            _ => Vec::new(),
        };
        Problem { status, code, title, message, places }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::warn!(detail = %self.message, "a request of people could not be answered");
        }
        let (detail, hint) = match self.message.split_once("\nhint: ") {
            Some((detail, hint)) => (detail, Some(hint)),
            None => (self.message.as_str(), None),
        };
        let shown = Shown {
            r#type: format!("urn:sluicegate:problem:{}", self.code),
            title: self.title,
            status: self.status.as_u16(),
            detail,
            hint,
            problems: &self.places,
        };
        let body = serde_json::to_string(&shown).unwrap_or_default();
        let media_type = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, media_type, body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
