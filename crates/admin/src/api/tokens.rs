//! `/tokens`: API tokens of people.

use std::{collections::HashMap, sync::Arc};

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use sluice_store::ApiToken;
use utoipa::{IntoParams, ToSchema};

use super::{
    AdminState, Problem,
    extract::{JsonBody, PathParams, QueryParams, RequestCaller},
    openapi::{
        Conflict, ContentTooLarge, InternalServerError, NotFound, ServiceUnavailable,
        UnprocessableContent, UnsupportedMediaType,
    },
    paging::cut_page,
    people::{RoleName, name_servers},
    run_to_completion,
};
use crate::{
    auth::{Caller, permission::Permission},
    clock,
    ops::{Refused, WantedToken},
    schema::{ObjectName, TimeOrSpan},
};

/// A page of API tokens, in the order of their ids.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenList {
    tokens: Vec<TokenView>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// An API token, without its text.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenView {
    id: String,
    /// The login of its person.
    #[schema(required)]
    login: Option<String>,
    label: String,
    /// It may do what both this role and that of its person allow.
    role: RoleName,
    /// The servers that it is limited to; null for all.
    #[schema(value_type = Option<Vec<ObjectName>>, required)]
    servers: Option<Vec<String>>,
    state: TokenState,
    #[schema(format = DateTime)]
    created_at: String,
    created_by: String,
    #[schema(format = DateTime, required)]
    last_used: Option<String>,
    #[schema(format = DateTime, required)]
    expires_at: Option<String>,
    #[schema(format = DateTime, required)]
    revoked_at: Option<String>,
}

/// Whether a token can be used.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum TokenState {
    Valid,
    Expired,
    Revoked,
}

/// An API token with its text, which is never shown again.
#[derive(Serialize, ToSchema)]
pub(super) struct IssuedApiToken {
    id: String,
    label: String,
    /// What programs send as `Authorization: Bearer`.
    token: String,
    #[schema(format = DateTime, required)]
    expires_at: Option<String>,
}

/// An API token to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    #[schema(min_length = 1, max_length = 64)]
    label: String,
    /// The login of its person: by default the caller. Only admins create tokens of others.
    login: Option<String>,
    /// By default that of its person.
    #[schema(value_type = Option<RoleName>)]
    role: Option<String>,
    /// The servers that it is limited to; all of its person by default.
    #[schema(value_type = Option<Vec<ObjectName>>, min_items = 1)]
    servers: Option<Vec<String>>,
    /// When it ends, at most in a year; a span is counted from now. 90 days by default.
    #[schema(value_type = Option<TimeOrSpan>)]
    expires: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenQuery {
    /// How many tokens to answer with, at most and by default 1000.
    #[param(value_type = u64, required = false)]
    limit: Option<usize>,
    /// `next` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
}

/// List API tokens
///
/// One's own; admins and auditors see those of all people.
#[utoipa::path(
    get,
    path = "/tokens",
    operation_id = "list_api_tokens",
    tag = "people",
    params(TokenQuery),
    responses(
        (status = 200, description = "A page of API tokens", body = TokenList),
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(TokenQuery { limit, cursor }): QueryParams<TokenQuery>,
) -> Result<Json<TokenList>, Problem> {
    let tokens = state.ops.tokens(whose(&caller, Permission::ReadPeople)).await?;
    let (tokens, next) = cut_page(tokens, |token| &token.id, cursor.as_deref(), limit);
    let people = state.ops.people().await?;
    let logins: HashMap<_, _> =
        people.iter().map(|person| (person.id.as_str(), person.login.as_str())).collect();
    let view = |token| TokenView::of(token, logins.get(token.person.as_str()).copied());
    Ok(Json(TokenList { tokens: tokens.iter().map(view).collect(), next }))
}

/// Whose tokens a caller may use: `None` for everybody's, which needs this permission.
fn whose(caller: &Caller, permission: Permission) -> Option<&str> {
    caller.person().map(|person| person.id.as_str()).filter(|_| !caller.may(permission))
}

/// Create an API token
///
/// The answer has its text, which cannot be read again later. An API token cannot create others.
#[utoipa::path(
    post,
    path = "/tokens",
    operation_id = "create_api_token",
    tag = "people",
    request_body = NewToken,
    responses(
        (status = 201, description = "The API token and its text", body = IssuedApiToken),
        NotFound,
        Conflict,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn create(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    JsonBody(new): JsonBody<NewToken>,
) -> Result<(StatusCode, Json<IssuedApiToken>), Problem> {
    if matches!(caller.proof, crate::auth::Proof::ApiToken(..)) {
        let message = "an API token cannot create another one\nhint: sign in, and create it there";
        return Err(Refused::Conflict(message.into()).into());
    }
    let NewToken { label, login, role, servers, expires } = new;
    let person = match (login, caller.person()) {
        (None, Some(person)) => person.clone(),
        (None, None) => {
            let message = "a token acts for a person, and the admin token has no account\nhint: name the person, as `login` or with `--person LOGIN`";
            return Err(Refused::Invalid(message.into()).into());
        }
        (Some(login), own) => {
            let is_own = own.is_some_and(|own| own.login == login.to_lowercase());
            if !is_own && !caller.may(Permission::WritePeople) {
                return Err(Problem::forbidden(&caller, Permission::WritePeople));
            }
            state.ops.person(&login).await?
        }
    };
    let wanted = WantedToken { label, role, servers, expires };
    let actor = caller.actor();
    let create = async move { state.ops.create_token(&person, wanted, &actor).await };
    let (token, text) = run_to_completion(create).await?;
    let issued = IssuedApiToken {
        id: token.id,
        label: token.label,
        token: text.text().to_owned(),
        expires_at: token.expires_at.map(|at| at.to_string()),
    };
    Ok((StatusCode::CREATED, Json(issued)))
}

/// Revoke an API token for good
///
/// One's own; admins revoke those of all people.
#[utoipa::path(
    delete,
    path = "/tokens/{id}",
    operation_id = "revoke_api_token",
    tag = "people",
    params(("id" = String, Path, description = "The id of the token")),
    responses(
        (status = 204, description = "The token is revoked"),
        NotFound,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn revoke(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, Problem> {
    let actor = caller.actor();
    let revoke = async move {
        let person = whose(&caller, Permission::WritePeople);
        state.ops.revoke_token(&id, person, &actor).await
    };
    run_to_completion(revoke).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl TokenView {
    fn of(token: &ApiToken, login: Option<&str>) -> TokenView {
        TokenView {
            id: token.id.clone(),
            login: login.map(str::to_owned),
            label: token.label.clone(),
            role: token.access.role.into(),
            servers: name_servers(token.access.servers.as_deref()),
            state: if token.revoked_at.is_some() {
                TokenState::Revoked
            } else if token.is_valid(clock::now()) {
                TokenState::Valid
            } else {
                TokenState::Expired
            },
            created_at: token.created_at.to_string(),
            created_by: token.created_by.clone(),
            last_used: token.last_used.map(|at| at.to_string()),
            expires_at: token.expires_at.map(|at| at.to_string()),
            revoked_at: token.revoked_at.map(|at| at.to_string()),
        }
    }
}
