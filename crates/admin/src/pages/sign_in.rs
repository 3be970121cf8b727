//! Signing in: with a password, by a link of the gateway, or by an invitation.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Redirect, Response},
};
use sluice_store::{Person, TokenHash};

use super::{PageError, form::Form, render, require_session};
use crate::{
    api::{
        AdminState, Problem,
        extract::{PathParams, SourceAddress},
        run_to_completion,
        session::{self, hash_new_password, set_cookie, sign_in_with_password},
    },
    auth::{Proof, cookie, cookie::CookieValue},
    ops::Refused,
};

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage<'p> {
    pub(super) login: &'p str,
    pub(super) notice: Option<&'p str>,
    pub(super) error: Option<String>,
}

/// The page to sign in on.
pub(super) async fn show() -> Response {
    render(&SignInPage { login: "", notice: None, error: None })
}

pub(super) async fn sign_in(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    form: Form,
) -> Response {
    let login = form.text("login");
    match sign_in_with_password(&state, source, login, form.secret("password")).await {
        Ok((_, cookie)) => enter(&cookie, "/account"),
        Err(problem) => {
            let error = Some(sentence(&problem));
            (problem.status(), render(&SignInPage { login, notice: None, error })).into_response()
        }
    }
}

/// Signs in the owner of the data directory.
pub(super) async fn sign_in_by_link(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    PathParams(token): PathParams<String>,
) -> Result<Response, PageError> {
    match session::sign_in_by_link(&state, source, &token).await {
        Ok(cookie) => Ok(enter(&cookie, "/account")),
        Err(problem) => Err(PageError::new(&state, problem).await),
    }
}

/// Goes on to a page in the session that has begun.
pub(super) fn enter(cookie: &CookieValue, path: &str) -> Response {
    (set_cookie(cookie), Redirect::to(path)).into_response()
}

/// What is wrong, as a sentence on a page.
pub(super) fn sentence(problem: &Problem) -> String {
    let (detail, hint) = problem.detail();
    let capital = |text: &str| {
        let mut rest = text.chars();
        rest.next().map(|first| first.to_uppercase().chain(rest).collect::<String>())
    };
    let sentences = [Some(detail), hint].into_iter().flatten().filter_map(capital);
    sentences.map(|text| text + ".").collect::<Vec<_>>().join(" ")
}

#[derive(Template)]
#[template(path = "new_password.html")]
struct NewPasswordPage<'p> {
    title: &'p str,
    lead: String,
    action: String,
    button: &'p str,
    csrf: &'p str,
    asks_login: bool,
    login: &'p str,
    error: Option<String>,
}

fn draw_invitation(person: &Person, token: &str, error: Option<String>) -> Response {
    render(&NewPasswordPage {
        title: "Welcome to Sluicegate",
        lead: format!(
            "You were invited as {} by {}. Choose a password for the login {}.",
            person.access.role.name(),
            person.created_by,
            person.login
        ),
        action: format!("/invitation/{token}"),
        button: "Set the password and sign in",
        csrf: "",
        asks_login: false,
        login: &person.login,
        error,
    })
}

pub(super) async fn show_invitation(
    State(state): State<Arc<AdminState>>,
    PathParams(token): PathParams<String>,
) -> Result<Response, PageError> {
    match state.ops.find_invited(&TokenHash::of(&token)).await {
        Ok(person) => Ok(draw_invitation(&person, &token, None)),
        Err(refused) => Err(PageError::new(&state, refused.into()).await),
    }
}

pub(super) async fn accept(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    PathParams(token): PathParams<String>,
    form: Form,
) -> Result<Response, PageError> {
    let hash = TokenHash::of(&token);
    let person = match state.ops.find_invited(&hash).await {
        Ok(person) => person,
        Err(refused) => return Err(PageError::new(&state, refused.into()).await),
    };
    let password = match form.new_password() {
        Ok(password) => password,
        Err(error) => return Ok(draw_invitation(&person, &token, Some(error.into()))),
    };
    let password = match hash_new_password(&state, password, &person.login).await {
        Ok(password) => password,
        Err(problem) => return Ok(draw_invitation(&person, &token, Some(sentence(&problem)))),
    };
    let actor = person.actor(Some(&source.to_string()));
    let accept = {
        let state = Arc::clone(&state);
        async move {
            let person = state.ops.accept_invitation(&hash, password, &actor).await?;
            state.ops.begin_session(Some(&person), "by an invitation", &actor).await
        }
    };
    match run_to_completion(accept).await {
        Ok(cookie) => Ok(enter(&cookie, "/account")),
        Err(problem) => Err(PageError::new(&state, problem).await),
    }
}

fn draw_setup(csrf: &str, login: &str, error: Option<String>) -> Response {
    render(&NewPasswordPage {
        title: "Create the first admin",
        lead: "This account can do everything, and invite others.".into(),
        action: "/setup".into(),
        button: "Create the account",
        csrf,
        asks_login: true,
        login,
        error,
    })
}

/// The page on which the owner of the data directory creates the first admin.
pub(super) async fn show_setup(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let found = require_session(&state, &headers, source).await;
    let (caller, csrf) = found.map_err(IntoResponse::into_response)?;
    check_owner(&state, &caller.proof).await?;
    Ok(draw_setup(&csrf, "", None))
}

async fn check_owner(state: &AdminState, proof: &Proof) -> Result<(), Response> {
    if matches!(proof, Proof::OwnerSession(_)) {
        return Ok(());
    }
    let problem = Problem::not_owner();
    Err(PageError::new(state, problem).await.into_response())
}

pub(super) async fn set_up(
    State(state): State<Arc<AdminState>>,
    SourceAddress(source): SourceAddress,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Response> {
    let csrf = form.text("csrf");
    let found = session::find_caller(&state, &headers, source, Some(csrf), false).await;
    let caller = found.ok_or_else(|| Redirect::to("/sign-in").into_response())?;
    check_owner(&state, &caller.proof).await?;
    let login = form.text("login");
    let refuse = |error: String| draw_setup(csrf, login, Some(error));
    let password = match form.new_password() {
        Ok(password) => password,
        Err(error) => return Ok(refuse(error.into())),
    };
    let lower = login.trim().to_lowercase();
    let password = match hash_new_password(&state, password, &lower).await {
        Ok(password) => password,
        Err(problem) => return Ok(refuse(sentence(&problem))),
    };
    let (actor, owner) = (caller.actor(), cookie::read(&headers).map(TokenHash::of));
    let create = {
        let (state, login) = (Arc::clone(&state), login.to_owned());
        async move {
            let person = state.ops.create_first_admin(&login, password, &actor).await?;
            let own = person.actor(actor.address.as_deref());
            let cookie = state.ops.begin_session(Some(&person), "for the first time", &own).await?;
            // The browser goes on as this person.
            if let Some(owner) = owner {
                state.ops.end_session(&owner, &actor).await?;
            }
            Ok::<_, Refused>(cookie)
        }
    };
    match run_to_completion(create).await {
        Ok(cookie) => Ok(enter(&cookie, "/account")),
        Err(problem) => Ok(refuse(sentence(&problem))),
    }
}
