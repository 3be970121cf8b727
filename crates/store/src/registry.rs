//! The registry: servers, policies and grants. Small, and watched for changes.
//!
//! Every change names its author, is recorded in the same transaction, and increments the
//! registry's epoch.

use std::{collections::HashMap, sync::Arc, time::Duration};

use sluice_policy::Timestamp;

use crate::{
    StoreError,
    actor::Edit,
    grant::{ChangedGrant, Grant, GrantEdit, NewGrant, Rotated, Token, TokenHash},
    id,
    memory::Memory,
    name::Name,
    record::{GrantRef, Kind, Outcome, PolicyRef, Record},
    server::{AttachedPolicy, DeclaredServer, PolicyVersion, Server},
    sqlite::Sqlite,
    store::Store,
};

/// The back-end for servers, policies and grants.
#[derive(Debug, Clone)]
pub(crate) enum Registry {
    Memory(Arc<Memory>),
    Sqlite(Arc<Sqlite>),
}

/// The contents of the registry at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// How many changes were made since the store was created.
    pub epoch: u64,
    pub servers: Vec<Server>,
    /// The active policies.
    pub policies: Vec<AttachedPolicy>,
    /// What each token stands for.
    pub grants: Vec<(TokenHash, Grant)>,
}

impl Store {
    /// Stores a server, replacing one of the same name.
    pub async fn put_server(&self, server: Server, edit: Edit) -> Result<(), StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.put_server(server, edit),
            Registry::Sqlite(sqlite) => sqlite.put_server(server, edit).await,
        }
    }

    /// Removes a server and all that would come back with another one of its name: its policies are
    /// deactivated, grants leave it, and its held calls expire. Returns whether it existed: stored, or
    /// among the [declared ones](Store::declared_servers).
    pub async fn remove_server(&self, name: &Name, edit: Edit) -> Result<bool, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.remove_server(name, edit),
            Registry::Sqlite(sqlite) => sqlite.remove_server(name, edit).await,
        }
    }

    /// All servers, by name.
    pub async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.servers()),
            Registry::Sqlite(sqlite) => sqlite.servers().await,
        }
    }

    /// The servers that files declare, and those that they declared before, by name.
    pub async fn declared_servers(&self) -> Result<Vec<DeclaredServer>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.declared_servers()),
            Registry::Sqlite(sqlite) => sqlite.declared_servers().await,
        }
    }

    /// Notes the servers that files declare; others stay known. That is not a change of the registry.
    pub async fn note_declared(&self, servers: Vec<DeclaredServer>) -> Result<(), StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.note_declared(servers),
            Registry::Sqlite(sqlite) => sqlite.note_declared(servers).await,
        }
    }

    /// Makes a policy the active one of its name on its server. Its version is computed
    /// from its text.
    pub async fn put_policy(&self, policy: AttachedPolicy, edit: Edit) -> Result<(), StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.put_policy(policy, edit),
            Registry::Sqlite(sqlite) => sqlite.put_policy(policy, edit).await,
        }
    }

    /// Deactivates a policy; returns whether it was active. Its versions are kept.
    pub async fn remove_policy(
        &self,
        server: &Name,
        name: &Name,
        edit: Edit,
    ) -> Result<bool, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.remove_policy(server, name, edit),
            Registry::Sqlite(sqlite) => sqlite.remove_policy(server, name, edit).await,
        }
    }

    /// The active policies, by server and name.
    pub async fn policies(&self) -> Result<Vec<AttachedPolicy>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.policies()),
            Registry::Sqlite(sqlite) => sqlite.policies().await,
        }
    }

    /// Every version of a policy, the newest first, whether active or not.
    pub async fn policy_versions(
        &self,
        server: &Name,
        name: &Name,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.policy_versions(server, name)),
            Registry::Sqlite(sqlite) => sqlite.policy_versions(server, name).await,
        }
    }

    /// Creates a grant. Only the returned value contains the token. Fails if another grant
    /// that is not revoked has the label.
    pub async fn create_grant(
        &self,
        new: NewGrant,
        edit: Edit,
    ) -> Result<(Grant, Token), StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.create_grant(new, edit),
            Registry::Sqlite(sqlite) => sqlite.create_grant(new, edit).await,
        }
    }

    /// Gives a grant a new token. The old one works for `overlap` longer; a token from a
    /// rotation before stops working. `None` if there is no such grant, or it was revoked.
    pub async fn rotate_grant(
        &self,
        id: &str,
        overlap: Duration,
        edit: Edit,
    ) -> Result<Option<Rotated>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.rotate_grant(id, overlap, edit),
            Registry::Sqlite(sqlite) => sqlite.rotate_grant(id, overlap, edit).await,
        }
    }

    /// Changes properties of a grant. `None` if there is no such grant, or it was revoked;
    /// fails if another grant that is not revoked has the new label.
    pub async fn edit_grant(
        &self,
        id: &str,
        changes: GrantEdit,
        edit: Edit,
    ) -> Result<Option<ChangedGrant>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.edit_grant(id, changes, edit),
            Registry::Sqlite(sqlite) => sqlite.edit_grant(id, changes, edit).await,
        }
    }

    /// Revokes a grant permanently; `None` if there is no such grant.
    pub async fn revoke_grant(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<ChangedGrant>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.revoke_grant(id, edit),
            Registry::Sqlite(sqlite) => sqlite.revoke_grant(id, edit).await,
        }
    }

    /// All grants, the oldest first.
    pub async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.grants()),
            Registry::Sqlite(sqlite) => sqlite.grants().await,
        }
    }

    /// A grant by its id.
    pub async fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.grant(id)),
            Registry::Sqlite(sqlite) => sqlite.grant(id).await,
        }
    }

    /// The grant a token belongs to, valid or not.
    pub async fn grant_of(&self, token: &TokenHash) -> Result<Option<Grant>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.grant_of(token)),
            Registry::Sqlite(sqlite) => sqlite.grant_of(token).await,
        }
    }

    /// Notes when grants were last used, by their ids. That is not a change of the
    /// registry; a time before the noted one has no effect.
    pub async fn note_uses(&self, uses: Vec<(String, Timestamp)>) -> Result<(), StoreError> {
        match &self.registry {
            Registry::Memory(memory) => memory.note_uses(uses),
            Registry::Sqlite(sqlite) => sqlite.note_uses(uses).await,
        }
    }

    /// When grants were last used, by their ids.
    pub async fn last_uses(&self) -> Result<HashMap<String, Timestamp>, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.last_uses()),
            Registry::Sqlite(sqlite) => sqlite.last_uses().await,
        }
    }

    /// A consistent snapshot of the registry.
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.snapshot()),
            Registry::Sqlite(sqlite) => sqlite.snapshot().await,
        }
    }

    /// The registry's epoch now.
    pub async fn epoch(&self) -> Result<u64, StoreError> {
        match &self.registry {
            Registry::Memory(memory) => Ok(memory.epoch()),
            Registry::Sqlite(sqlite) => sqlite.epoch().await,
        }
    }
}

/// The record of a change, without the object that was changed.
pub(crate) fn edit_record(edit: Edit, now: Timestamp) -> Record {
    Record {
        actor: Some(edit.actor),
        outcome: Some(Outcome::Allow),
        message: Some(edit.message),
        ..Record::new(id::new_id(now), now, Kind::Admin)
    }
}

impl Record {
    pub(crate) fn about_server(self, name: &Name) -> Record {
        Record { server: Some(name.as_str().into()), ..self }
    }

    pub(crate) fn about_policy(self, name: &Name, version: &str) -> Record {
        let policy = PolicyRef { name: name.as_str().into(), version: version.into() };
        Record { policy: Some(policy), ..self }
    }

    pub(crate) fn about_grant(self, grant: &Grant) -> Record {
        let (id, label) = (grant.id.as_str().into(), grant.label.as_str().into());
        Record { grant: Some(GrantRef { id, label }), ..self }
    }
}
