//! `/session`: signing in and out, and who is signed in.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{AppendHeaders, IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use sluice_config::span;
use sluice_store::{Account, Actor, Person, Secret};
use utoipa::{IntoParams, ToSchema};

use super::{
    AdminState, Problem,
    extract::{JsonBody, QueryParams, RequestCaller, SourceAddress},
    openapi::{
        Conflict, ContentTooLarge, InternalServerError, ServiceUnavailable, TooManyRequests,
        Unauthorized, UnprocessableContent, UnsupportedMediaType,
    },
    people::RoleName,
    run_to_completion,
};
use crate::{
    auth::{
        Caller, LINK_LIFETIME, Proof, cookie,
        cookie::CookieValue,
        note_failure,
        password::{HashError, check_strength},
    },
    clock,
    ops::Refused,
    schema::ObjectName,
};

/// A login and its password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    login: String,
    #[schema(format = Password)]
    password: String,
}

/// A session that has begun. The answer sets its cookie.
#[derive(Serialize, ToSchema)]
pub(super) struct BegunSession {
    login: String,
    /// What requests of this session that change something must send as `X-CSRF-Token`.
    csrf_token: String,
}

/// Who makes the request.
#[derive(Serialize, ToSchema)]
pub(super) struct CallerView {
    proof: ProofName,
    /// The login of the person; null for the admin token and the owner's session.
    #[schema(required)]
    login: Option<String>,
    #[schema(required)]
    name: Option<String>,
    role: RoleName,
    /// The servers that the role is limited to; null for all.
    #[schema(value_type = Option<Vec<ObjectName>>, required)]
    servers: Option<Vec<String>>,
    /// Why the caller has this role.
    reason: String,
    /// When the session or token ends.
    #[schema(required, format = DateTime)]
    expires_at: Option<String>,
}

/// What proves who makes a request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum ProofName {
    AdminToken,
    Session,
    ApiToken,
}

/// A new password for oneself.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PasswordChange {
    #[schema(format = Password)]
    current: String,
    /// At least 12 characters.
    #[schema(format = Password)]
    new: String,
}

/// A link that signs in the owner of the data directory, once.
#[derive(Serialize, ToSchema)]
pub(super) struct SignInLink {
    /// The path and its secret, on this listener.
    path: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SignOutQuery {
    /// Whether all sessions of the caller end.
    #[param(value_type = bool, required = false)]
    everywhere: Option<bool>,
}

/// Sign in with a password
///
/// Attempts are limited for each login and for each address.
#[utoipa::path(
    post,
    path = "/session",
    operation_id = "sign_in",
    tag = "people",
    security(()),
    request_body = SignIn,
    responses(
        (
            status = 201,
            description = "The session has begun",
            body = BegunSession,
            headers(("Set-Cookie" = String, description = "The cookie of the session"))
        ),
        Unauthorized,
        TooManyRequests,
        ContentTooLarge,
        UnsupportedMediaType,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn sign_in(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    JsonBody(SignIn { login, password }): JsonBody<SignIn>,
) -> Result<Response, Problem> {
    let (person, cookie) =
        sign_in_with_password(&state, source, &login, Secret::new(password)).await?;
    let body = BegunSession { login: person.login, csrf_token: cookie.csrf_token() };
    Ok((StatusCode::CREATED, set_cookie(&cookie), Json(body)).into_response())
}

/// Signs a person in; for the API and the page.
pub(crate) async fn sign_in_with_password(
    state: &Arc<AdminState>,
    source: IpAddr,
    login: &str,
    password: Secret,
) -> Result<(Person, CookieValue), Problem> {
    let login = login.trim().to_lowercase();
    let attempt = state.auth.attempts.begin(&login);
    attempt.map_err(|wait| Problem::sign_in_attempts(wait.as_secs() + 1))?;
    let account = state.ops.account(&login).await?;
    let hash = account.as_ref().and_then(|account| account.password.clone());
    let is_right = state.auth.passwords.verify(password, hash).await?;
    let Some(Account { person, .. }) = account.filter(|_| is_right) else {
        let wait = note_failure(state, source, WRONG_PASSWORD);
        return Err(wait.map_or_else(|| Problem::token(WRONG_PASSWORD), Problem::sign_in_attempts));
    };
    state.auth.attempts.forgive(&login);
    let actor = person.actor(Some(&source.to_string()));
    let begin = {
        let (state, person) = (Arc::clone(state), person.clone());
        async move { state.ops.begin_session(Some(&person), "with a password", &actor).await }
    };
    let cookie = run_to_completion(begin).await?;
    Ok((person, cookie))
}

const WRONG_PASSWORD: &str =
    "login or password is wrong\nhint: an admin can send a link for a new password";

/// The header that sets the cookie of a session.
pub(crate) fn set_cookie(cookie: &CookieValue) -> impl axum::response::IntoResponseParts + use<> {
    AppendHeaders(cookie.header().map(|value| (header::SET_COOKIE, value)))
}

/// Show who is signed in
///
/// Who makes this request, with which role, and why.
#[utoipa::path(
    get,
    path = "/session",
    operation_id = "show_session",
    tag = "people",
    responses((status = 200, description = "Who makes the request", body = CallerView))
)]
pub(super) async fn show(RequestCaller(caller): RequestCaller) -> Json<CallerView> {
    Json(CallerView::of(&caller))
}

/// Sign out
#[utoipa::path(
    delete,
    path = "/session",
    operation_id = "sign_out",
    tag = "people",
    params(SignOutQuery),
    responses(
        (status = 204, description = "The session has ended"),
        Conflict,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn sign_out(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(SignOutQuery { everywhere }): QueryParams<SignOutQuery>,
) -> Result<Response, Problem> {
    end_sessions(&state, &caller, everywhere == Some(true)).await?;
    let removed = AppendHeaders([(header::SET_COOKIE, cookie::removal())]);
    Ok((StatusCode::NO_CONTENT, removed).into_response())
}

/// Ends the caller's session, or all of them.
pub(crate) async fn end_sessions(
    state: &Arc<AdminState>,
    caller: &Caller,
    is_everywhere: bool,
) -> Result<(), Problem> {
    let (state, caller, actor) = (Arc::clone(state), caller.clone(), caller.actor());
    run_to_completion(async move {
        match (caller.session(), is_everywhere) {
            (_, true) => {
                let person = caller.person().map(|person| person.id.as_str());
                state.ops.end_all_sessions(person, &actor).await
            }
            (Some(session), false) => state.ops.end_session(&session.token, &actor).await,
            (None, false) => {
                let message = "this request is not part of a session\nhint: add `?everywhere=true` to end all sessions, or revoke the token with DELETE /tokens/{id}";
                Err(Refused::Conflict(message.into()))
            }
        }
    })
    .await
}

/// Change one's own password
///
/// All sessions of the person end; the answer sets the cookie of a new one.
#[utoipa::path(
    put,
    path = "/session/password",
    operation_id = "change_password",
    tag = "people",
    request_body = PasswordChange,
    responses(
        (
            status = 200,
            description = "The password has changed, and a new session has begun",
            body = BegunSession,
            headers(("Set-Cookie" = String, description = "The cookie of the session"))
        ),
        Conflict,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn change_password(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    JsonBody(PasswordChange { current, new }): JsonBody<PasswordChange>,
) -> Result<Response, Problem> {
    let (current, new) = (Secret::new(current), Secret::new(new));
    let (person, cookie) = replace_password(&state, &caller, current, new).await?;
    let body = BegunSession { login: person.login, csrf_token: cookie.csrf_token() };
    Ok((set_cookie(&cookie), Json(body)).into_response())
}

/// Changes the caller's password, which ends all sessions, and begins a new one.
pub(crate) async fn replace_password(
    state: &Arc<AdminState>,
    caller: &Caller,
    current: Secret,
    new: Secret,
) -> Result<(Person, CookieValue), Problem> {
    let Proof::Session(_, person) = &caller.proof else {
        let message = "only a person who is signed in can change the password";
        return Err(Refused::Conflict(message.into()).into());
    };
    let person = person.clone();
    let attempt = state.auth.attempts.begin(&person.login);
    attempt.map_err(|wait| Problem::sign_in_attempts(wait.as_secs() + 1))?;
    let account = state.ops.account(&person.login).await?;
    let hash = account.and_then(|account| account.password);
    if !state.auth.passwords.verify(current, hash).await? {
        return Err(Refused::Invalid("the current password is wrong".into()).into());
    }
    state.auth.attempts.forgive(&person.login);
    let hash = hash_new_password(state, new, &person.login).await?;
    let (state, actor) = (Arc::clone(state), caller.actor());
    run_to_completion(async move {
        state.ops.set_password(&person, hash, &actor).await?;
        let how = "after a change of the password";
        let cookie = state.ops.begin_session(Some(&person), how, &actor).await?;
        Ok((person, cookie))
    })
    .await
}

/// The hash of a new password that is not too easy to guess.
pub(crate) async fn hash_new_password(
    state: &AdminState,
    password: Secret,
    login: &str,
) -> Result<Secret, Problem> {
    check_strength(password.expose(), login).map_err(|weak| Refused::Invalid(weak.to_string()))?;
    Ok(state.auth.passwords.hash(password).await?)
}

/// Create a sign-in link for the owner of the data directory
///
/// The link works once, within ten minutes, in a browser on the gateway's machine. Only the admin
/// token can ask for it.
#[utoipa::path(
    post,
    path = "/session/links",
    operation_id = "create_sign_in_link",
    tag = "people",
    responses(
        (status = 201, description = "The link", body = SignInLink),
        Conflict,
        InternalServerError,
    )
)]
pub(super) async fn create_link(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
) -> Result<(StatusCode, Json<SignInLink>), Problem> {
    if !matches!(caller.proof, Proof::AdminToken | Proof::OwnerSession(_)) {
        let message = "only the admin token can ask for this link\nhint: people sign in with their own account";
        return Err(Refused::Conflict(message.into()).into());
    }
    let path = build_link(&state).ok_or(HashError::Failed)?;
    let expires_at = span::after(clock::now(), LINK_LIFETIME).to_string();
    Ok((StatusCode::CREATED, Json(SignInLink { path, expires_at })))
}

/// The path of a new sign-in link.
pub(crate) fn build_link(state: &AdminState) -> Option<String> {
    state.auth.links.issue().map(|token| format!("/sign-in/link/{}", token.text()))
}

/// Signs in the owner of the data directory by a one-time link.
pub(crate) async fn sign_in_by_link(
    state: &Arc<AdminState>,
    source: IpAddr,
    token: &str,
) -> Result<CookieValue, Problem> {
    if !state.auth.links.take(token, source) {
        let message = "this link was used, is over, or is not for this machine\nhint: `sluice open` prints a new one";
        let wait = note_failure(state, source, message);
        return Err(wait.map_or_else(|| Problem::token(message), Problem::sign_in_attempts));
    }
    let actor =
        Actor { address: Some(source.to_string().into()), ..Actor::local("owner", "owner") };
    let state = Arc::clone(state);
    run_to_completion(async move {
        state.ops.begin_session(None, "with a link of this gateway", &actor).await
    })
    .await
}

impl CallerView {
    fn of(caller: &Caller) -> CallerView {
        let person = caller.person();
        let (proof, expires_at) = match &caller.proof {
            Proof::AdminToken => (ProofName::AdminToken, None),
            Proof::OwnerSession(session) | Proof::Session(session, _) => {
                (ProofName::Session, Some(session.expires_at))
            }
            Proof::ApiToken(token, _) => (ProofName::ApiToken, token.expires_at),
        };
        let servers = caller.list_servers();
        CallerView {
            proof,
            login: person.map(|person| person.login.clone()),
            name: person.map(|person| person.name.clone()),
            role: caller.role().into(),
            servers: servers.map(|names| names.split(", ").map(str::to_owned).collect()),
            reason: explain_role(caller),
            expires_at: expires_at.map(|at| at.to_string()),
        }
    }
}

/// Why a caller has their role.
pub(crate) fn explain_role(caller: &Caller) -> String {
    match caller.person() {
        Some(person) => person.reason.clone(),
        None => "who can read the data directory can do everything".into(),
    }
}

/// A request's headers and address, for pages that find out themselves who is signed in.
pub(crate) async fn find_caller(
    state: &AdminState,
    headers: &HeaderMap,
    source: IpAddr,
    csrf: Option<&str>,
    is_safe: bool,
) -> Option<Caller> {
    crate::auth::identify(state, headers, source, csrf, is_safe).await.ok()
}
