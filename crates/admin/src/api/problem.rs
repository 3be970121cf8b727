//! Errors as RFC 9457 problems. This is the one place that gives each refusal
//! its status.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use sluice_store::{Role, StoreError};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{ObjectBuilder, Schema, Type},
    },
};

use crate::{
    auth::{Caller, password::HashError, permission::Permission},
    ops::Refused,
};

/// How many seconds to wait before events are asked for again.
const READERS_WAIT: u64 = 5;

/// An answer that refuses the request or reports a failure.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: ProblemKind,
    /// The text for people, with a hint on its own line.
    message: String,
    /// Where a policy is wrong.
    places: Vec<PolicyProblem>,
    /// How many seconds to wait before the next attempt.
    wait: Option<u64>,
}

/// The kinds of problems, which programs tell apart by their code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    Request,
    Token,
    Attempts,
    Host,
    Origin,
    Csrf,
    Forbidden,
    Command,
    Missing,
    NoSuchPath,
    Method,
    Declared,
    Conflict,
    Stale,
    TooLarge,
    MediaType,
    Invalid,
    Policy,
    Catalog,
    StoreFailed,
    StoreUnavailable,
    Upstream,
    Readers,
}

/// A problem as RFC 9457 defines it.
#[derive(Serialize, ToSchema)]
pub(super) struct ProblemDetails<'p> {
    #[schema(value_type = ProblemType)]
    r#type: String,
    /// The kind of problem in words.
    title: &'static str,
    /// The HTTP status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What is wrong with this request.
    #[schema(value_type = String)]
    detail: &'p str,
    /// How to fix it, if that is known.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'p str>,
    /// Everything that is wrong with a policy.
    #[schema(value_type = Vec<PolicyProblem>)]
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    problems: &'p [PolicyProblem],
}

/// The URI of a kind of problem, of which only the schema is used.
pub(super) enum ProblemType {}

impl PartialSchema for ProblemType {
    fn schema() -> RefOr<Schema> {
        let mut uris: Vec<_> = ProblemKind::ALL.into_iter().map(ProblemKind::uri).collect();
        uris.dedup();
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.description(Some("The kind of problem.")).enum_values(Some(uris)).into()
    }
}

impl ToSchema for ProblemType {}

/// One thing wrong with a policy's text.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PolicyProblem {
    /// Line, from 1.
    line: usize,
    /// Column in characters, from 1.
    column: usize,
    /// What is wrong.
    message: String,
    /// How to fix it, if that is known.
    #[schema(required)]
    hint: Option<String>,
}

impl From<sluice_policy::Problem> for PolicyProblem {
    fn from(problem: sluice_policy::Problem) -> PolicyProblem {
        let sluice_policy::Problem { line, column, message, hint, .. } = problem;
        PolicyProblem { line, column, message, hint }
    }
}

impl ProblemKind {
    /// All kinds; those with the same code stand together.
    pub(super) const ALL: [ProblemKind; 23] = [
        ProblemKind::Request,
        ProblemKind::Token,
        ProblemKind::Attempts,
        ProblemKind::Host,
        ProblemKind::Origin,
        ProblemKind::Csrf,
        ProblemKind::Forbidden,
        ProblemKind::Command,
        ProblemKind::Missing,
        ProblemKind::NoSuchPath,
        ProblemKind::Method,
        ProblemKind::Declared,
        ProblemKind::Conflict,
        ProblemKind::Stale,
        ProblemKind::TooLarge,
        ProblemKind::MediaType,
        ProblemKind::Invalid,
        ProblemKind::Policy,
        ProblemKind::Catalog,
        ProblemKind::StoreFailed,
        ProblemKind::StoreUnavailable,
        ProblemKind::Upstream,
        ProblemKind::Readers,
    ];

    pub(super) fn status(self) -> StatusCode {
        match self {
            ProblemKind::Request => StatusCode::BAD_REQUEST,
            ProblemKind::Token => StatusCode::UNAUTHORIZED,
            ProblemKind::Attempts | ProblemKind::Readers => StatusCode::TOO_MANY_REQUESTS,
            ProblemKind::Host
            | ProblemKind::Origin
            | ProblemKind::Csrf
            | ProblemKind::Forbidden
            | ProblemKind::Command => StatusCode::FORBIDDEN,
            ProblemKind::Missing | ProblemKind::NoSuchPath => StatusCode::NOT_FOUND,
            ProblemKind::Method => StatusCode::METHOD_NOT_ALLOWED,
            ProblemKind::Declared | ProblemKind::Conflict => StatusCode::CONFLICT,
            ProblemKind::Stale => StatusCode::PRECONDITION_FAILED,
            ProblemKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ProblemKind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ProblemKind::Invalid | ProblemKind::Policy => StatusCode::UNPROCESSABLE_ENTITY,
            ProblemKind::StoreFailed | ProblemKind::Catalog => StatusCode::INTERNAL_SERVER_ERROR,
            ProblemKind::Upstream => StatusCode::BAD_GATEWAY,
            ProblemKind::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(super) fn code(self) -> &'static str {
        match self {
            ProblemKind::Request => "request",
            ProblemKind::Token => "token",
            ProblemKind::Attempts => "attempts",
            ProblemKind::Host => "host",
            ProblemKind::Origin => "origin",
            ProblemKind::Csrf => "csrf",
            ProblemKind::Forbidden => "forbidden",
            ProblemKind::Command => "command",
            ProblemKind::Missing => "missing",
            ProblemKind::NoSuchPath => "no-such-path",
            ProblemKind::Method => "method",
            ProblemKind::Declared => "declared",
            ProblemKind::Conflict => "conflict",
            ProblemKind::Stale => "stale",
            ProblemKind::TooLarge => "too-large",
            ProblemKind::MediaType => "media-type",
            ProblemKind::Invalid => "invalid",
            ProblemKind::Policy => "policy",
            ProblemKind::Catalog => "catalog",
            ProblemKind::Upstream => "upstream",
            ProblemKind::Readers => "readers",
            ProblemKind::StoreFailed | ProblemKind::StoreUnavailable => "store",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            ProblemKind::Request => "Bad request",
            ProblemKind::Token => "Not signed in",
            ProblemKind::Attempts => "Too many failed attempts",
            ProblemKind::Host => "Host not allowed",
            ProblemKind::Origin => "Origin not allowed",
            ProblemKind::Csrf => "CSRF token required",
            ProblemKind::Forbidden => "Not allowed for this role",
            ProblemKind::Command => "Commands are not accepted",
            ProblemKind::Missing => "Not found",
            ProblemKind::NoSuchPath => "No such path",
            ProblemKind::Method => "Method not allowed",
            ProblemKind::Declared => "Declared in the configuration file",
            ProblemKind::Conflict => "Conflict",
            ProblemKind::Stale => "Changed meanwhile",
            ProblemKind::TooLarge => "Too large",
            ProblemKind::MediaType => "Unsupported media type",
            ProblemKind::Invalid => "Not valid",
            ProblemKind::Policy => "The policy has problems",
            ProblemKind::StoreFailed => "The gateway failed",
            ProblemKind::Catalog => "The catalogue cannot be read",
            ProblemKind::Upstream => "No answer",
            ProblemKind::Readers => "Too many streams of events",
            ProblemKind::StoreUnavailable => "The store cannot be used",
        }
    }

    /// The URI that names it.
    fn uri(self) -> String {
        format!("urn:sluicegate:problem:{}", self.code())
    }
}

impl Problem {
    fn new(kind: ProblemKind, message: impl Into<String>) -> Problem {
        Problem { kind, message: message.into(), places: Vec::new(), wait: None }
    }

    pub(crate) fn no_such_path() -> Problem {
        Problem::new(ProblemKind::NoSuchPath, "nothing is at this path")
    }

    pub(crate) fn not_allowed() -> Problem {
        Problem::new(ProblemKind::Method, "this path does not take this method")
    }

    pub(crate) fn host() -> Problem {
        let message = "this gateway is not known by the name in `Host`\nhint: add it to `allowed_hosts` in the configuration file";
        Problem::new(ProblemKind::Host, message)
    }

    pub(crate) fn origin() -> Problem {
        let message = "pages of this origin may not call\nhint: add it to `allowed_origins` in the configuration file";
        Problem::new(ProblemKind::Origin, message)
    }

    pub(crate) fn token(message: &str) -> Problem {
        Problem::new(ProblemKind::Token, message)
    }

    /// The source of the request has failed too often to authenticate.
    pub(crate) fn attempts(wait: u64) -> Problem {
        let message = format!(
            "this token is wrong, and there were too many failed attempts: try again in {wait} s\nhint: the right token is accepted at any time"
        );
        Problem { wait: Some(wait), ..Problem::new(ProblemKind::Attempts, message) }
    }

    /// Too many attempts to sign in, for this login or from this address.
    pub(crate) fn sign_in_attempts(wait: u64) -> Problem {
        let message = format!("too many attempts to sign in: try again in {wait} s");
        Problem { wait: Some(wait), ..Problem::new(ProblemKind::Attempts, message) }
    }

    /// A request of a session that changes something, without its CSRF token.
    pub(crate) fn csrf() -> Problem {
        let message = "a session must send its CSRF token as `X-CSRF-Token`\nhint: GET /session's sign-in answer has it; programs use an API token instead";
        Problem::new(ProblemKind::Csrf, message)
    }

    /// The role of the caller does not include the request.
    pub(crate) fn forbidden(caller: &Caller, needed: Permission) -> Problem {
        let roles: Vec<_> = needed.roles().map(Role::name).collect();
        let role = caller.role().name();
        let message = match caller.list_servers() {
            Some(servers) if needed.is_global() => format!(
                "this is about all servers, and the role `{role}` is limited to {servers}\nhint: ask an admin"
            ),
            _ => format!(
                "the role `{role}` does not include this\nhint: it takes {}; ask an admin",
                roles.join(" or ")
            ),
        };
        Problem::new(ProblemKind::Forbidden, message)
    }

    /// The page is for the owner of the data directory.
    pub(crate) fn not_owner() -> Problem {
        let message = "this page is for the owner of the gateway's data directory\nhint: `sluice open` on the gateway's machine signs the owner in";
        Problem::new(ProblemKind::Forbidden, message)
    }

    /// The role of the caller does not include the server.
    pub(crate) fn other_server(caller: &Caller, server: &str) -> Problem {
        let servers = caller.list_servers().unwrap_or_default();
        let message = format!(
            "your role is limited to {servers}, and does not include server `{server}`\nhint: ask an admin"
        );
        Problem::new(ProblemKind::Forbidden, message)
    }

    /// Refuses a question about a server that the caller's role does not include, or about all
    /// servers if the role is limited to some.
    pub(crate) fn check_server(caller: &Caller, server: Option<&str>) -> Result<(), Problem> {
        match server {
            _ if caller.is_unlimited() => Ok(()),
            None => Err(Problem::unnamed_server(caller)),
            Some(server) if caller.covers_text(server) => Ok(()),
            Some(server) => Err(Problem::other_server(caller, server)),
        }
    }

    /// A caller whose role is limited to some servers must name one.
    fn unnamed_server(caller: &Caller) -> Problem {
        let servers = caller.list_servers().unwrap_or_default();
        let message = format!(
            "your role is limited to {servers}\nhint: name one of them, as `server` in the query"
        );
        Problem::new(ProblemKind::Forbidden, message)
    }

    pub(crate) fn request(message: impl Into<String>) -> Problem {
        Problem::new(ProblemKind::Request, message)
    }

    pub(crate) fn too_large() -> Problem {
        Problem::new(ProblemKind::TooLarge, "the body is longer than this gateway takes")
    }

    pub(crate) fn media_type(expected: &str) -> Problem {
        Problem::new(ProblemKind::MediaType, format!("`Content-Type` must be {expected}"))
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        let kind = match &refused {
            Refused::Missing(_) => ProblemKind::Missing,
            Refused::Declared(_) => ProblemKind::Declared,
            Refused::Conflict(_)
            | Refused::Store(
                StoreError::LabelTaken(_) | StoreError::LoginTaken(_) | StoreError::LastAdmin,
            ) => ProblemKind::Conflict,
            Refused::Invalid(_) => ProblemKind::Invalid,
            Refused::Problems(_) => ProblemKind::Policy,
            Refused::Stale(_) => ProblemKind::Stale,
            Refused::Command => ProblemKind::Command,
            Refused::Silent { .. } => ProblemKind::Upstream,
            Refused::Readers(_) => ProblemKind::Readers,
            Refused::Store(StoreError::Overloaded | StoreError::Stopped) => {
                ProblemKind::StoreUnavailable
            }
            Refused::Catalog(_) => ProblemKind::Catalog,
            Refused::Store(_) | Refused::Lost => ProblemKind::StoreFailed,
        };
        let message = refused.to_string();
        let places = match refused {
            Refused::Problems(places) => places.into_iter().map(PolicyProblem::from).collect(),
            _ => Vec::new(),
        };
        let wait = (kind == ProblemKind::Readers).then_some(READERS_WAIT);
        Problem { kind, message, places, wait }
    }
}

impl From<HashError> for Problem {
    fn from(error: HashError) -> Problem {
        match error {
            HashError::Busy => {
                Problem { wait: Some(5), ..Problem::new(ProblemKind::Attempts, error.to_string()) }
            }
            HashError::Failed => Problem::new(ProblemKind::StoreFailed, error.to_string()),
        }
    }
}

impl Problem {
    pub(crate) fn status(&self) -> StatusCode {
        self.kind.status()
    }

    pub(crate) fn title(&self) -> &'static str {
        self.kind.title()
    }

    /// What is wrong, and how to fix it if that is known.
    pub(crate) fn detail(&self) -> (&str, Option<&str>) {
        match self.message.split_once("\nhint: ") {
            Some((detail, hint)) => (detail, Some(hint)),
            None => (&self.message, None),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.kind.status();
        if status.is_server_error() {
            tracing::warn!(detail = %self.message, "an admin request failed");
        }
        let (detail, hint) = self.detail();
        let details = ProblemDetails {
            r#type: self.kind.uri(),
            title: self.kind.title(),
            status: status.as_u16(),
            detail,
            hint,
            problems: &self.places,
        };
        let body = serde_json::to_string(&details).unwrap_or_default();
        let media_type = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, media_type, body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(wait) = self.wait {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, wait.into());
            // The next guess costs a connection.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
