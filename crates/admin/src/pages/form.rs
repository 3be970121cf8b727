//! The fields of a form that was sent.

use std::collections::HashMap;

use axum::extract::{FromRequest, Request};
use sluice_store::Secret;
use url::form_urlencoded;

use crate::api::{Problem, extract};

/// The fields of a form, by name. A field that is sent twice has its last value.
pub(super) struct Form(HashMap<String, String>);

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Form, Problem> {
        let expected = "application/x-www-form-urlencoded";
        if extract::media_type(request.headers()) != expected {
            return Err(Problem::media_type("`application/x-www-form-urlencoded`"));
        }
        let body = extract::read_body(request, state).await?;
        Ok(Form(form_urlencoded::parse(&body).into_owned().collect()))
    }
}

impl Form {
    /// A field; empty if it was not sent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn secret(&self, name: &str) -> Secret {
        Secret::new(self.text(name).to_owned())
    }

    /// A new password that was typed twice.
    pub(super) fn new_password(&self) -> Result<Secret, &'static str> {
        if self.text("password") == self.text("again") {
            Ok(self.secret("password"))
        } else {
            Err("The two passwords differ. Type the same one twice.")
        }
    }
}
