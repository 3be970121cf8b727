//! One's own account: what one may do and why, one's sessions, the password.

use std::{net::IpAddr, sync::Arc};

use askama::Template;
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{AppendHeaders, IntoResponse, Redirect, Response},
};
use sluice_policy::Timestamp;
use sluice_store::Role;

use super::{
    PageError,
    form::Form,
    list_admins, render, require_session,
    sign_in::{SignInPage, enter, sentence},
};
use crate::{
    api::{
        AdminState, Problem,
        extract::SourceAddress,
        session::{end_sessions, explain_role, find_caller, replace_password},
    },
    auth::{Caller, cookie},
};

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'p> {
    who: &'p str,
    role: &'p str,
    meaning: &'p str,
    servers: Option<String>,
    reason: String,
    admins: String,
    may_set_up: bool,
    has_password: bool,
    sessions: Vec<SessionRow>,
    csrf: &'p str,
    notice: Option<&'p str>,
    error: Option<String>,
}

struct SessionRow {
    address: String,
    since: String,
    used: String,
    is_this: bool,
}

/// Goes on to the account, or to the page to sign in on.
pub(super) async fn show_home(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    headers: HeaderMap,
) -> Redirect {
    match require_session(&state, &headers, source).await {
        Ok(_) => Redirect::to("/account"),
        Err(sign_in) => sign_in,
    }
}

pub(super) async fn show(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let found = require_session(&state, &headers, source).await;
    let (caller, csrf) = found.map_err(IntoResponse::into_response)?;
    Ok(draw(&state, &caller, &csrf, None, None).await)
}

async fn draw(
    state: &AdminState,
    caller: &Caller,
    csrf: &str,
    notice: Option<&str>,
    error: Option<String>,
) -> Response {
    let person = caller.person();
    let sessions = state.ops.sessions_of(person.map(|person| person.id.as_str())).await;
    let own = caller.session().map(|session| session.token);
    let rows = sessions.unwrap_or_default().into_iter().map(|session| SessionRow {
        is_this: Some(session.token) == own,
        address: session.address,
        since: to_minute(session.created_at),
        used: to_minute(session.used_at),
    });
    let is_alone = state.ops.people().await.is_ok_and(|people| people.is_empty());
    let role = caller.role();
    render(&AccountPage {
        who: person.map_or("the owner of the data directory", |person| &person.login),
        role: role.name(),
        meaning: explain(role),
        servers: caller.list_servers(),
        reason: explain_role(caller),
        admins: if role == Role::Admin { String::new() } else { list_admins(state).await },
        may_set_up: person.is_none() && is_alone,
        has_password: person.is_some_and(|person| person.has_password),
        sessions: rows.collect(),
        csrf,
        notice,
        error,
    })
}

fn explain(role: Role) -> &'static str {
    match role {
        Role::Admin => "may do everything",
        Role::PolicyManager => "changes policies, and which grants have which",
        Role::Approver => "decides calls that wait for approval",
        Role::Auditor => "reads everything, changes nothing",
        Role::Viewer => "reads servers, policies and grants",
    }
}

/// A time in UTC, to the minute.
fn to_minute(at: Timestamp) -> String {
    let text = at.to_string();
    let minute = text.get(..16).unwrap_or(&text);
    minute.replace('T', " ") + " UTC"
}

pub(super) async fn change_password(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Response> {
    let caller = require_form_caller(&state, &headers, source, &form).await?;
    let csrf = form.text("csrf");
    let password = match form.new_password() {
        Ok(password) => password,
        Err(error) => return Ok(draw(&state, &caller, csrf, None, Some(error.into())).await),
    };
    match replace_password(&state, &caller, form.secret("current"), password).await {
        Ok((_, cookie)) => Ok(enter(&cookie, "/account")),
        Err(problem) => {
            let page = draw(&state, &caller, csrf, None, Some(sentence(&problem))).await;
            Ok((problem.status(), page).into_response())
        }
    }
}

/// The caller of a form of a session, which must carry the session's CSRF token.
async fn require_form_caller(
    state: &AdminState,
    headers: &HeaderMap,
    source: IpAddr,
    form: &Form,
) -> Result<Caller, Response> {
    let csrf = Some(form.text("csrf"));
    let caller = find_caller(state, headers, source, csrf, false).await;
    caller
        .filter(|caller| caller.session().is_some())
        .ok_or_else(|| Redirect::to("/sign-in").into_response())
}

pub(super) async fn sign_out(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Response> {
    leave(&state, &headers, source, &form, false).await
}

pub(super) async fn sign_out_everywhere(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Response> {
    leave(&state, &headers, source, &form, true).await
}

/// Ends the session, or all of the caller's.
async fn leave(
    state: &Arc<AdminState>,
    headers: &HeaderMap,
    source: IpAddr,
    form: &Form,
    is_everywhere: bool,
) -> Result<Response, Response> {
    let caller = require_form_caller(state, headers, source, form).await?;
    if let Err(problem) = end_sessions(state, &caller, is_everywhere).await {
        return Err(refuse(state, problem).await);
    }
    let notice =
        Some(if is_everywhere { "You are signed out everywhere." } else { "You are signed out." });
    let removed = AppendHeaders([(header::SET_COOKIE, cookie::removal())]);
    let page = render(&SignInPage { login: "", notice, error: None });
    Ok((StatusCode::OK, removed, page).into_response())
}

async fn refuse(state: &AdminState, problem: Problem) -> Response {
    PageError::new(state, problem).await.into_response()
}
