//! People, sessions and API tokens of the in-memory back-end.

use std::collections::BTreeMap;

use sluice_policy::Timestamp;

use super::{Memory, State};
use crate::{
    StoreError,
    actor::Edit,
    grant::{Token, TokenHash},
    people::{
        Account, AccountChange, ApiToken, Identity, MOST_OF_PERSON, NewApiToken, NewPerson,
        NewSession, Person, Session, check_admins, sign_in_record,
    },
    registry::edit_record,
    server::Secret,
};

/// People by id, and what proves their identity.
#[derive(Default)]
pub(super) struct People {
    accounts: BTreeMap<String, Account>,
    sessions: BTreeMap<TokenHash, Session>,
    tokens: BTreeMap<String, (ApiToken, TokenHash)>,
}

impl People {
    fn check_unique(&self, new: &Account) -> Result<(), StoreError> {
        let mut others = self.accounts.values().map(|account| &account.person);
        let is_taken = |other: &Person| {
            other.login == new.person.login
                || other.identity.is_some() && other.identity == new.person.identity
        };
        match others.find(|other| is_taken(other)) {
            Some(_) => Err(StoreError::LoginTaken(new.person.login.clone())),
            None => Ok(()),
        }
    }

    fn has_other_admin(&self, id: &str) -> bool {
        self.accounts.values().any(|other| other.person.id != id && other.person.is_able_admin())
    }

    fn end_sessions(&mut self, person: Option<&str>) -> usize {
        self.sessions.extract_if(.., |_, session| session.person.as_deref() == person).count()
    }

    /// Changes an account, and returns the person; the caller records that.
    fn change(
        &mut self,
        id: &str,
        change: AccountChange,
        now: Timestamp,
    ) -> Result<Option<Person>, StoreError> {
        let Some(before) = self.accounts.get(id).cloned() else { return Ok(None) };
        let ends_sessions = change.ends_sessions();
        let after = change.apply(before.clone(), now);
        check_admins(&before.person, Some(&after.person), self.has_other_admin(id))?;
        let person = after.person.clone();
        self.accounts.insert(id.to_owned(), after);
        if ends_sessions {
            self.end_sessions(Some(id));
        }
        Ok(Some(person))
    }
}

impl Memory {
    fn people_state(&self) -> Result<(super::MutexGuard<'_, State>, Timestamp), StoreError> {
        Ok((self.open()?, self.clock.now()))
    }

    pub(crate) fn create_person(&self, new: NewPerson, edit: Edit) -> Result<Person, StoreError> {
        let (mut state, now) = self.people_state()?;
        let account = new.into_account(now, &edit.actor);
        state.people.check_unique(&account)?;
        let person = account.person.clone();
        state.people.accounts.insert(person.id.clone(), account);
        self.change(&mut state, edit_record(edit, now));
        Ok(person)
    }

    pub(crate) fn change_account(
        &self,
        id: &str,
        change: AccountChange,
        edit: Edit,
    ) -> Result<Option<Person>, StoreError> {
        let (mut state, now) = self.people_state()?;
        let changed = state.people.change(id, change, now)?;
        if changed.is_some() {
            self.change(&mut state, edit_record(edit, now));
        }
        Ok(changed)
    }

    pub(crate) fn accept_invitation(
        &self,
        token: &TokenHash,
        password: Secret,
        edit: Edit,
    ) -> Result<Option<Person>, StoreError> {
        let (mut state, now) = self.people_state()?;
        let mut accounts = state.people.accounts.values();
        let Some(found) = accounts.find(|account| account.admits(token, now)) else {
            return Ok(None);
        };
        let id = found.person.id.clone();
        let changed = state.people.change(&id, AccountChange::SetPassword(password), now)?;
        self.change(&mut state, edit_record(edit, now));
        Ok(changed)
    }

    pub(crate) fn remove_person(&self, id: &str, edit: Edit) -> Result<Option<Person>, StoreError> {
        let (mut state, now) = self.people_state()?;
        let people = &mut state.people;
        let Some(account) = people.accounts.get(id) else { return Ok(None) };
        check_admins(&account.person, None, people.has_other_admin(id))?;
        let removed = people.accounts.remove(id).map(|account| account.person);
        people.end_sessions(Some(id));
        people.tokens.retain(|_, (token, _)| token.person != id);
        self.change(&mut state, edit_record(edit, now));
        Ok(removed)
    }

    pub(crate) fn people(&self) -> Vec<Person> {
        self.lock().people.accounts.values().map(|account| account.person.clone()).collect()
    }

    pub(crate) fn person(&self, id: &str) -> Option<Person> {
        self.lock().people.accounts.get(id).map(|account| account.person.clone())
    }

    pub(crate) fn account_of_login(&self, login: &str) -> Option<Account> {
        let state = self.lock();
        state.people.accounts.values().find(|account| account.person.login == login).cloned()
    }

    pub(crate) fn person_of_identity(&self, identity: &Identity) -> Option<Person> {
        let people = self.people();
        people.into_iter().find(|person| person.identity.as_ref() == Some(identity))
    }

    pub(crate) fn person_of_invitation(&self, token: &TokenHash) -> Option<Person> {
        let (state, now) = (self.lock(), self.clock.now());
        let mut accounts = state.people.accounts.values();
        accounts.find(|account| account.admits(token, now)).map(|account| account.person.clone())
    }

    pub(crate) fn begin_session(&self, new: NewSession, edit: Edit) -> Result<(), StoreError> {
        let (mut state, now) = self.people_state()?;
        let session = new.begin(now);
        let people = &mut state.people;
        people.sessions.retain(|_, other| now < other.expires_at);
        let mut own: Vec<_> =
            people.sessions.values().filter(|other| other.person == session.person).collect();
        own.sort_by_key(|other| (other.created_at, other.token));
        let excess = (own.len() + 1).saturating_sub(MOST_OF_PERSON);
        let oldest: Vec<_> = own.iter().take(excess).map(|other| other.token).collect();
        for token in oldest {
            people.sessions.remove(&token);
        }
        if let Some(account) =
            session.person.as_ref().and_then(|person| people.accounts.get_mut(person))
        {
            account.person.last_sign_in = Some(now);
        }
        people.sessions.insert(session.token, session);
        state.append(sign_in_record(edit, now));
        Ok(())
    }

    pub(crate) fn session(&self, token: &TokenHash) -> Option<(Session, Option<Person>)> {
        let state = self.lock();
        let session = state.people.sessions.get(token)?.clone();
        let account = session.person.as_ref().and_then(|person| state.people.accounts.get(person));
        let person = account.map(|account| account.person.clone());
        Some((session, person))
    }

    pub(crate) fn sessions_of(&self, person: Option<&str>) -> Vec<Session> {
        let state = self.lock();
        let own = state.people.sessions.values().filter(|one| one.person.as_deref() == person);
        let mut own: Vec<_> = own.cloned().collect();
        own.sort_by_key(|session| (session.created_at, session.token));
        own.reverse();
        own
    }

    pub(crate) fn note_session_use(
        &self,
        token: &TokenHash,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        if let Some(session) = self.open()?.people.sessions.get_mut(token) {
            session.used_at = session.used_at.max(at);
        }
        Ok(())
    }

    pub(crate) fn end_session(&self, token: &TokenHash, edit: Edit) -> Result<bool, StoreError> {
        let (mut state, now) = self.people_state()?;
        let ended = state.people.sessions.remove(token).is_some();
        if ended {
            state.append(sign_in_record(edit, now));
        }
        Ok(ended)
    }

    pub(crate) fn end_sessions_of(
        &self,
        person: Option<&str>,
        edit: Edit,
    ) -> Result<usize, StoreError> {
        let (mut state, now) = self.people_state()?;
        let ended = state.people.end_sessions(person);
        state.append(sign_in_record(edit, now));
        Ok(ended)
    }

    pub(crate) fn create_api_token(
        &self,
        new: NewApiToken,
        edit: Edit,
    ) -> Result<Option<(ApiToken, Token)>, StoreError> {
        let text = Token::for_person().ok_or_else(StoreError::no_randomness)?;
        let (mut state, now) = self.people_state()?;
        if !state.people.accounts.contains_key(&new.person) {
            return Ok(None);
        }
        let token = new.into_token(now, &edit.actor);
        state.people.tokens.insert(token.id.clone(), (token.clone(), text.hash()));
        self.change(&mut state, edit_record(edit, now));
        Ok(Some((token, text)))
    }

    pub(crate) fn api_tokens(&self) -> Vec<ApiToken> {
        self.lock().people.tokens.values().map(|(token, _)| token.clone()).collect()
    }

    pub(crate) fn api_token_of(&self, token: &TokenHash) -> Option<(ApiToken, Person)> {
        let state = self.lock();
        let (found, _) = state.people.tokens.values().find(|(_, hash)| hash == token)?;
        let person = state.people.accounts.get(&found.person)?.person.clone();
        Some((found.clone(), person))
    }

    pub(crate) fn note_api_token_use(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        if let Some((token, _)) = self.open()?.people.tokens.get_mut(id) {
            token.last_used = token.last_used.max(Some(at));
        }
        Ok(())
    }

    pub(crate) fn revoke_api_token(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<ApiToken>, StoreError> {
        let (mut state, now) = self.people_state()?;
        let Some((token, _)) = state.people.tokens.get_mut(id) else { return Ok(None) };
        token.revoked_at = token.revoked_at.or(Some(now));
        let revoked = token.clone();
        self.change(&mut state, edit_record(edit, now));
        Ok(Some(revoked))
    }
}
