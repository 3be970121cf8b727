//! Sessions: beginning and ending them.

use sluice_config::span;
use sluice_store::{Actor, NewSession, Person, Session, StoreError, TokenHash};

use super::{Ops, Refused, build_edit};
use crate::{
    auth::{SESSION_LIFETIME, cookie::CookieValue},
    clock,
};

impl Ops {
    /// Begins a session of a person; of the owner of the data directory without one.
    pub(crate) async fn begin_session(
        &self,
        person: Option<&Person>,
        how: &str,
        actor: &Actor,
    ) -> Result<CookieValue, Refused> {
        let no_randomness = || StoreError::Failed("the system gives no randomness".into());
        let cookie = CookieValue::new().ok_or_else(no_randomness)?;
        let address = actor.address.as_deref().unwrap_or_default();
        let session = NewSession {
            token: cookie.hash(),
            person: person.map(|person| person.id.clone()),
            address: address.to_owned(),
            expires_at: span::after(clock::now(), SESSION_LIFETIME),
        };
        let edit = build_edit(actor, format!("`{}` signed in {how}", actor.label));
        self.store.begin_session(session, edit).await?;
        Ok(cookie)
    }

    pub(crate) async fn end_session(
        &self,
        token: &TokenHash,
        actor: &Actor,
    ) -> Result<(), Refused> {
        let edit = build_edit(actor, format!("`{}` signed out", actor.label));
        self.store.end_session(token, edit).await?;
        Ok(())
    }

    /// Ends all sessions of a person, or of the owner of the data directory.
    pub(crate) async fn end_all_sessions(
        &self,
        person: Option<&str>,
        actor: &Actor,
    ) -> Result<(), Refused> {
        let edit = build_edit(actor, format!("`{}` signed out everywhere", actor.label));
        self.store.end_sessions_of(person, edit).await?;
        Ok(())
    }

    pub(crate) async fn sessions_of(&self, person: Option<&str>) -> Result<Vec<Session>, Refused> {
        Ok(self.store.sessions_of(person).await?)
    }
}
