//! The OpenAPI document. Each handler describes its own operation and the router
//! collects them; what all operations have in common is added here.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Extension, http::header, response::IntoResponse};
use utoipa::{
    IntoResponses, PartialSchema as _, ToSchema as _,
    openapi::{
        Components, Content, Header, Info, License, OpenApi, OpenApiBuilder, Ref, RefOr, Response,
        ResponseBuilder,
        extensions::Extensions,
        path::{Operation, PathItem},
        schema::ObjectBuilder,
        security::{
            ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
        },
        tag::{Tag, TagBuilder},
    },
};

use sluice_store::Role;

use super::problem::{PolicyProblem, ProblemDetails, ProblemKind, ProblemType};
use crate::auth::{cookie, permission::find_rule};

/// The names of the security schemes.
const TOKEN: &str = "token";
const SESSION: &str = "session";

const TAGS: [(&str, &str); 9] = [
    ("servers", "MCP servers and their tools"),
    ("policies", "Policies attached to servers"),
    ("grants", "Tokens that clients call servers with"),
    ("approvals", "Calls that wait for a person's decision"),
    ("audit", "The audit log"),
    ("people", "People, their sessions and API tokens"),
    ("events", "What happens, as it happens"),
    ("catalog", "Published servers and tools, with their assessment"),
    ("status", "The state of the gateway, and this document"),
];

/// Declares a type for each status of a problem, to be named among the responses
/// of an operation, and `list_problem_responses` with all of them.
macro_rules! problem_responses {
    ($($name:ident = $status:literal, $description:literal;)*) => {
        $(
            #[doc = $description]
            pub(super) enum $name {}

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    let response = Ref::from_response_name(stringify!($name));
                    BTreeMap::from([($status.to_string(), RefOr::Ref(response))])
                }
            }
        )*

        /// The status and the description of each, by name.
        fn list_problem_responses() -> Vec<(&'static str, u16, &'static str)> {
            vec![$((stringify!($name), $status, $description)),*]
        }
    };
}

problem_responses! {
    BadRequest = 400, "The path, the query, a header or the body cannot be read.";
    Unauthorized = 401, "Nobody is signed in, or the token, the session or the password is not valid.";
    Forbidden = 403, "The `Host` or `Origin` is not allowed, the role of the caller does not include the request, the session does not send its CSRF token, or the request would change a server that is started as a command.";
    NotFound = 404, "There is no such object.";
    Conflict = 409, "The object is declared in the configuration file, the name is taken, the grant was revoked, the caller has no account or session that this is for, no admin would be left, or the gateway could not apply the change, which was undone.";
    PreconditionFailed = 412, "`If-Match` or `If-None-Match` does not hold.";
    ContentTooLarge = 413, "The body is too long.";
    UnsupportedMediaType = 415, "The content type is not accepted.";
    UnprocessableContent = 422, "A value is not valid, or the policy has problems.";
    TooManyRequests = 429, "The token, the session or the password is not valid, and so were too many from this address or its network in this minute, or for this login, while the right token is accepted at any time; or there are as many streams of events as there may be.";
    InternalServerError = 500, "The store or the catalogue failed.";
    BadGateway = 502, "The tools of the server cannot be listed.";
    ServiceUnavailable = 503, "The store accepts no requests at the moment.";
}

/// The document before any operation is added.
pub(super) fn describe_api() -> OpenApi {
    let info = Info::builder()
        .title("Sluicegate admin API")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Manages the servers, policies and grants of a gateway, and reads its audit log. See docs/reference/api.md."))
        .license(Some(License::builder().name("Apache-2.0").identifier(Some("Apache-2.0")).build()));
    OpenApiBuilder::new()
        .info(info)
        .components(Some(describe_components()))
        .security(Some(
            [TOKEN, SESSION].map(|name| SecurityRequirement::new(name, Vec::<String>::new())),
        ))
        .tags(Some(TAGS.map(describe_tag)))
        .build()
}

fn describe_tag((name, description): (&str, &str)) -> Tag {
    TagBuilder::new().name(name).description(Some(description)).build()
}

fn describe_components() -> Components {
    let mut components = Components::new();
    let mut schemas = vec![
        (ProblemDetails::name().into_owned(), ProblemDetails::schema()),
        (ProblemType::name().into_owned(), ProblemType::schema()),
        (PolicyProblem::name().into_owned(), PolicyProblem::schema()),
    ];
    components.schemas.extend(schemas.drain(..));
    for (name, status, description) in list_problem_responses() {
        let response = describe_problem(status, description);
        components.responses.insert(name.to_owned(), response.into());
    }
    let bearer = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("The admin token, which is in `admin-token` of the data directory, or an API token of a person."));
    let scheme = SecurityScheme::Http(bearer.build());
    components.security_schemes.insert(TOKEN.to_owned(), scheme.into());
    let session = "The cookie of a session. Requests other than GET also need its CSRF token, as `X-CSRF-Token`.";
    let session = ApiKey::Cookie(ApiKeyValue::with_description(cookie::NAME, session));
    let scheme = SecurityScheme::ApiKey(session);
    components.security_schemes.insert(SESSION.to_owned(), scheme.into());
    components
}

fn describe_problem(status: u16, description: &str) -> Response {
    let kinds = ProblemKind::ALL.into_iter().filter(|kind| kind.status() == status);
    let codes: Vec<_> = kinds.map(|kind| format!("`{}`", kind.code())).collect();
    let description = format!("{description} The problem type ends in {}.", codes.join(" or "));
    let details = Ref::from_schema_name(ProblemDetails::name());
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", Content::new(Some(details)));
    if status == 401 {
        response.header("WWW-Authenticate", describe_header("`Bearer`.")).build()
    } else if status == 429 {
        response.header("Retry-After", describe_header("How many seconds to wait.")).build()
    } else {
        response.build()
    }
}

fn describe_header(description: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(utoipa::openapi::schema::Type::String);
    let mut header = Header::new(text);
    header.description = Some(description.to_owned());
    header
}

/// Adds the responses that any request can get, because access control comes before every
/// handler, and the roles that may make it, as `x-roles`.
pub(super) fn add_access_control(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in list_operations(item) {
            let path = path.strip_prefix("/api/v1").unwrap_or_default();
            if let Some(rule) = find_rule(method, path) {
                let roles: Vec<_> = rule.roles().map(Role::name).collect();
                let extensions = Extensions::builder().add("x-roles", roles).build();
                operation.extensions = Some(extensions);
            }
            let mut common = BadRequest::responses();
            common.append(&mut Forbidden::responses());
            // An operation that needs no token says so itself.
            if operation.security.is_none() {
                common.append(&mut Unauthorized::responses());
                common.append(&mut TooManyRequests::responses());
            }
            operation.responses.responses.append(&mut common);
        }
    }
}

fn list_operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let all = [("GET", get), ("PUT", put), ("POST", post), ("DELETE", delete), ("PATCH", patch)];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Show this document
///
/// The OpenAPI 3.1 document of the running gateway.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "show_openapi",
    tag = "status",
    responses((status = 200, description = "The OpenAPI document", body = Object, content_type = "application/json")),
)]
pub(super) async fn show(Extension(document): Extension<Arc<OpenApi>>) -> impl IntoResponse {
    let text = document.to_pretty_json().unwrap_or_default() + "\n";
    ([(header::CONTENT_TYPE, "application/json")], text)
}
