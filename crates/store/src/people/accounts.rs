//! The contract of people, sessions and API tokens.

use sluice_policy::Timestamp;

use super::{
    Account, AccountChange, ApiToken, Identity, NewApiToken, NewPerson, NewSession, Person, Session,
};
use crate::{
    StoreError,
    actor::Edit,
    grant::{Token, TokenHash},
    registry::Registry,
    server::Secret,
    store::Store,
};

impl Store {
    /// Creates a person; fails if another one has the login or the identity.
    pub async fn create_person(&self, new: NewPerson, edit: Edit) -> Result<Person, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.create_person(new, edit),
            Registry::Sqlite(sqlite) => sqlite.create_person(new, edit).await,
        }
    }

    /// Changes an account; `None` if there is no such person. Fails if no admin would be left
    /// who can sign in.
    pub async fn change_account(
        &self,
        id: &str,
        change: AccountChange,
        edit: Edit,
    ) -> Result<Option<Person>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.change_account(id, change, edit),
            Registry::Sqlite(sqlite) => sqlite.change_account(id, change, edit).await,
        }
    }

    /// Accepts an invitation, which is then used up: sets the password. `None` if there is no
    /// such invitation, or it is over.
    pub async fn accept_invitation(
        &self,
        token: &TokenHash,
        password: Secret,
        edit: Edit,
    ) -> Result<Option<Person>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.accept_invitation(token, password, edit),
            Registry::Sqlite(sqlite) => sqlite.accept_invitation(token, password, edit).await,
        }
    }

    /// Removes a person with all sessions and API tokens; returns the person. Fails if no admin
    /// would be left who can sign in.
    pub async fn remove_person(&self, id: &str, edit: Edit) -> Result<Option<Person>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.remove_person(id, edit),
            Registry::Sqlite(sqlite) => sqlite.remove_person(id, edit).await,
        }
    }

    /// All people, the oldest account first.
    pub async fn people(&self) -> Result<Vec<Person>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.people()),
            Registry::Sqlite(sqlite) => sqlite.people().await,
        }
    }

    /// A person by id.
    pub async fn person(&self, id: &str) -> Result<Option<Person>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.person(id)),
            Registry::Sqlite(sqlite) => sqlite.person(id).await,
        }
    }

    /// The account of a login.
    pub async fn account_of_login(&self, login: &str) -> Result<Option<Account>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.account_of_login(login)),
            Registry::Sqlite(sqlite) => sqlite.account_of_login(login).await,
        }
    }

    /// The person that an account at an identity provider belongs to.
    pub async fn person_of_identity(
        &self,
        identity: &Identity,
    ) -> Result<Option<Person>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.person_of_identity(identity)),
            Registry::Sqlite(sqlite) => sqlite.person_of_identity(identity).await,
        }
    }

    /// The person that an invitation is for, if it is still valid.
    pub async fn person_of_invitation(
        &self,
        token: &TokenHash,
    ) -> Result<Option<Person>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.person_of_invitation(token)),
            Registry::Sqlite(sqlite) => sqlite.person_of_invitation(token).await,
        }
    }

    /// Begins a session. Sessions that are over are removed, and the oldest of the person if
    /// there are too many.
    pub async fn begin_session(&self, new: NewSession, edit: Edit) -> Result<(), StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.begin_session(new, edit),
            Registry::Sqlite(sqlite) => sqlite.begin_session(new, edit).await,
        }
    }

    /// A session by the hash of its cookie, and its person, whether still valid or not.
    pub async fn session(
        &self,
        token: &TokenHash,
    ) -> Result<Option<(Session, Option<Person>)>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.session(token)),
            Registry::Sqlite(sqlite) => sqlite.session(token).await,
        }
    }

    /// The sessions of a person, the newest first.
    pub async fn sessions_of(&self, person: Option<&str>) -> Result<Vec<Session>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.sessions_of(person)),
            Registry::Sqlite(sqlite) => sqlite.sessions_of(person).await,
        }
    }

    /// Notes that a session was used. That is not a change of the registry.
    pub async fn note_session_use(
        &self,
        token: &TokenHash,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.note_session_use(token, at),
            Registry::Sqlite(sqlite) => sqlite.note_session_use(token, at).await,
        }
    }

    /// Ends a session; returns whether there was one.
    pub async fn end_session(&self, token: &TokenHash, edit: Edit) -> Result<bool, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.end_session(token, edit),
            Registry::Sqlite(sqlite) => sqlite.end_session(token, edit).await,
        }
    }

    /// Ends all sessions of a person; returns how many.
    pub async fn end_sessions_of(
        &self,
        person: Option<&str>,
        edit: Edit,
    ) -> Result<usize, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.end_sessions_of(person, edit),
            Registry::Sqlite(sqlite) => sqlite.end_sessions_of(person, edit).await,
        }
    }

    /// Creates an API token. Only the returned value contains its text. `None` if there is no
    /// such person.
    pub async fn create_api_token(
        &self,
        new: NewApiToken,
        edit: Edit,
    ) -> Result<Option<(ApiToken, Token)>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.create_api_token(new, edit),
            Registry::Sqlite(sqlite) => sqlite.create_api_token(new, edit).await,
        }
    }

    /// All API tokens, the oldest first.
    pub async fn api_tokens(&self) -> Result<Vec<ApiToken>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.api_tokens()),
            Registry::Sqlite(sqlite) => sqlite.api_tokens().await,
        }
    }

    /// The API token with this hash, valid or not, and its person.
    pub async fn api_token_of(
        &self,
        token: &TokenHash,
    ) -> Result<Option<(ApiToken, Person)>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.api_token_of(token)),
            Registry::Sqlite(sqlite) => sqlite.api_token_of(token).await,
        }
    }

    /// Notes that an API token was used. That is not a change of the registry.
    pub async fn note_api_token_use(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.note_api_token_use(id, at),
            Registry::Sqlite(sqlite) => sqlite.note_api_token_use(id, at).await,
        }
    }

    /// Revokes an API token permanently; `None` if there is no such token.
    pub async fn revoke_api_token(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<ApiToken>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.revoke_api_token(id, edit),
            Registry::Sqlite(sqlite) => sqlite.revoke_api_token(id, edit).await,
        }
    }
}
