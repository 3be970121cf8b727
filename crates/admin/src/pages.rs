//! Pages for people: signing in and out, invitations, one's own account.
//!
//! They are plain HTML with forms, and need no script. Each calls the same operations as the API.

mod account;
mod form;
mod sign_in;

use std::sync::Arc;

use askama::Template;
use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use sluice_store::Role;

use crate::{
    api::{AdminState, Problem, session::find_caller},
    auth::{Caller, cookie},
};

/// The routes of all pages.
pub(crate) fn build_routes() -> Router<Arc<AdminState>> {
    Router::new()
        .route("/", get(account::show_home))
        .route("/assets/app.css", get(show_style))
        .route("/assets/icon.svg", get(show_icon))
        .route("/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/sign-in/link/{token}", get(sign_in::sign_in_by_link))
        .route("/invitation/{token}", get(sign_in::show_invitation).post(sign_in::accept))
        .route("/setup", get(sign_in::show_setup).post(sign_in::set_up))
        .route("/account", get(account::show))
        .route("/account/password", post(account::change_password))
        .route("/sign-out", post(account::sign_out))
        .route("/sign-out-everywhere", post(account::sign_out_everywhere))
}

async fn show_style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../assets/app.css"))
}

async fn show_icon() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "image/svg+xml")], include_str!("../assets/icon.svg"))
}

/// A page that cannot be shown, and why.
pub(crate) struct PageError(Problem, String);

impl PageError {
    /// The problem with a list of whom to ask.
    async fn new(state: &AdminState, problem: Problem) -> PageError {
        let admins = if problem.status() == StatusCode::FORBIDDEN {
            list_admins(state).await
        } else {
            String::new()
        };
        PageError(problem, admins)
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'p> {
    title: &'p str,
    detail: &'p str,
    hint: Option<&'p str>,
    admins: &'p str,
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let PageError(problem, admins) = self;
        let status = problem.status();
        let (detail, hint) = problem.detail();
        let title = problem.title();
        let page = ProblemPage { title, detail, hint, admins: &admins };
        (status, render(&page)).into_response()
    }
}

/// A page as an answer.
fn render(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The caller of a page in a session, with the session's CSRF token; else the page to sign in on.
async fn require_session(
    state: &AdminState,
    headers: &HeaderMap,
    source: std::net::IpAddr,
) -> Result<(Caller, String), Redirect> {
    let caller = find_caller(state, headers, source, None, true).await;
    let caller = caller.filter(|caller| caller.session().is_some());
    let csrf = cookie::read(headers).map(cookie::derive_csrf_token);
    caller.zip(csrf).ok_or_else(|| Redirect::to("/sign-in"))
}

/// The logins of the admins, with commas between.
async fn list_admins(state: &AdminState) -> String {
    let people = state.ops.people().await.unwrap_or_default();
    let admins = people
        .iter()
        .filter(|person| person.access.role == Role::Admin && person.disabled_at.is_none());
    admins.map(|person| person.login.as_str()).collect::<Vec<_>>().join(", ")
}
