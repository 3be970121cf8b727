//! The registry of the in-memory back-end.

use std::collections::BTreeMap;

use super::{Memory, State};
use crate::{
    StoreError,
    actor::Edit,
    grant::{Grant, NewGrant, Rotated, Token, TokenHash},
    name::Name,
    record::Record,
    registry::{Snapshot, edit_record},
    server::{AttachedPolicy, PolicyVersion, Server, Source, Transport},
};

/// The stored servers, policies and grants.
#[derive(Default)]
pub(super) struct Registered {
    epoch: u64,
    servers: BTreeMap<Name, Server>,
    policies: BTreeMap<(Name, Name), AttachedPolicy>,
    /// The oldest first.
    versions: Vec<PolicyVersion>,
    grants: BTreeMap<String, (TokenHash, Grant)>,
}

impl Memory {
    /// Makes a change and records it.
    fn change(&self, state: &mut State, record: Record) {
        state.append(record);
        state.registered.epoch += 1;
        self.announcer.announce_own(state.registered.epoch);
    }

    pub(crate) fn put_server(&self, server: Server, edit: Edit) -> Result<(), StoreError> {
        let Transport::Http { .. } = &server.transport else {
            return Err(StoreError::NotStorable(server.name.to_string()));
        };
        let mut state = self.open()?;
        let record = edit_record(edit, self.clock.now()).about_server(&server.name);
        let server = Server { source: Source::Stored, ..server };
        state.registered.servers.insert(server.name.clone(), server);
        self.change(&mut state, record);
        Ok(())
    }

    pub(crate) fn remove_server(&self, name: &Name, edit: Edit) -> Result<bool, StoreError> {
        let mut state = self.open()?;
        state.registered.policies.retain(|(server, _), _| server != name);
        if state.registered.servers.remove(name).is_none() {
            return Ok(false);
        }
        let record = edit_record(edit, self.clock.now()).about_server(name);
        self.change(&mut state, record);
        Ok(true)
    }

    pub(crate) fn servers(&self) -> Vec<Server> {
        self.lock().registered.servers.values().cloned().collect()
    }

    pub(crate) fn put_policy(&self, policy: AttachedPolicy, edit: Edit) -> Result<(), StoreError> {
        let (mut state, now) = (self.open()?, self.clock.now());
        let version = AttachedPolicy::version_of(&policy.text);
        let policy = AttachedPolicy { version, source: Source::Stored, ..policy };
        let record = edit_record(edit, now).about_server(&policy.server);
        let record = record.about_policy(&policy.name, &policy.version);
        let place = (policy.server.clone(), policy.name.clone());
        // Storing the current text again makes no new version.
        let before = state.registered.policies.insert(place, policy.clone());
        if before.as_ref() != Some(&policy) {
            state.registered.versions.push(PolicyVersion { policy, at: now });
        }
        self.change(&mut state, record);
        Ok(())
    }

    pub(crate) fn remove_policy(
        &self,
        server: &Name,
        name: &Name,
        edit: Edit,
    ) -> Result<bool, StoreError> {
        let mut state = self.open()?;
        let removed = state.registered.policies.remove(&(server.clone(), name.clone()));
        let Some(policy) = removed else { return Ok(false) };
        let record = edit_record(edit, self.clock.now()).about_server(server);
        self.change(&mut state, record.about_policy(name, &policy.version));
        Ok(true)
    }

    pub(crate) fn policies(&self) -> Vec<AttachedPolicy> {
        self.lock().registered.policies.values().cloned().collect()
    }

    pub(crate) fn policy_versions(&self, server: &Name, name: &Name) -> Vec<PolicyVersion> {
        let is_of = |version: &&PolicyVersion| {
            version.policy.server == *server && version.policy.name == *name
        };
        self.lock().registered.versions.iter().filter(is_of).rev().cloned().collect()
    }

    pub(crate) fn create_grant(
        &self,
        new: NewGrant,
        edit: Edit,
    ) -> Result<(Grant, Token), StoreError> {
        let token = Token::new().ok_or_else(StoreError::no_randomness)?;
        let (mut state, now) = (self.open()?, self.clock.now());
        let grant = new.into_grant(now);
        let kept = (token.hash(), grant.clone());
        state.registered.grants.insert(grant.id.clone(), kept);
        self.change(&mut state, edit_record(edit, now).about_grant(&grant));
        Ok((grant, token))
    }

    pub(crate) fn rotate_grant(&self, id: &str, edit: Edit) -> Result<Option<Rotated>, StoreError> {
        let token = Token::new().ok_or_else(StoreError::no_randomness)?;
        let mut state = self.open()?;
        let found = state.registered.grants.get_mut(id);
        let Some((hash, grant)) = found.filter(|(_, grant)| grant.revoked_at.is_none()) else {
            return Ok(None);
        };
        let (old, grant) = (std::mem::replace(hash, token.hash()), grant.clone());
        self.change(&mut state, edit_record(edit, self.clock.now()).about_grant(&grant));
        Ok(Some(Rotated { grant, token, old }))
    }

    pub(crate) fn revoke_grant(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<(TokenHash, Grant)>, StoreError> {
        let (mut state, now) = (self.open()?, self.clock.now());
        let Some((hash, grant)) = state.registered.grants.get_mut(id) else { return Ok(None) };
        grant.revoked_at.get_or_insert(now);
        let revoked = (*hash, grant.clone());
        self.change(&mut state, edit_record(edit, now).about_grant(&revoked.1));
        Ok(Some(revoked))
    }

    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.lock().registered.grants.values().map(|(_, grant)| grant.clone()).collect()
    }

    pub(crate) fn grant(&self, id: &str) -> Option<Grant> {
        self.lock().registered.grants.get(id).map(|(_, grant)| grant.clone())
    }

    pub(crate) fn grant_of(&self, token: &TokenHash) -> Option<Grant> {
        let state = self.lock();
        let found = state.registered.grants.values().find(|(hash, _)| hash == token);
        found.map(|(_, grant)| grant.clone())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let Registered { epoch, servers, policies, grants, .. } = &state.registered;
        Snapshot {
            epoch: *epoch,
            servers: servers.values().cloned().collect(),
            policies: policies.values().cloned().collect(),
            grants: grants.values().cloned().collect(),
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.lock().registered.epoch
    }
}
