//! The registry of the in-memory back-end.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use sluice_policy::Timestamp;

use super::{Memory, State};
use crate::{
    StoreError,
    actor::Edit,
    grant::{ChangedGrant, Grant, GrantEdit, GrantTokens, NewGrant, Rotated, Token, TokenHash},
    name::Name,
    record::Record,
    registry::{Snapshot, edit_record},
    server::{AttachedPolicy, DeclaredServer, PolicyVersion, Server, Source, Transport},
};

/// The stored servers, policies and grants.
#[derive(Default)]
pub(super) struct Registered {
    epoch: u64,
    servers: BTreeMap<Name, Server>,
    declared: BTreeMap<Name, DeclaredServer>,
    policies: BTreeMap<(Name, Name), AttachedPolicy>,
    /// The oldest first.
    versions: Vec<PolicyVersion>,
    grants: BTreeMap<String, ChangedGrant>,
    /// When grants were last used.
    uses: HashMap<String, Timestamp>,
}

impl Registered {
    /// Fails if a grant other than `id` that is not revoked has the label.
    fn check_label(&self, label: &Name, id: &str) -> Result<(), StoreError> {
        let is_taken = |other: &ChangedGrant| {
            let other = &other.grant;
            other.id != id && other.label == *label && other.revoked_at.is_none()
        };
        if self.grants.values().any(is_taken) {
            return Err(StoreError::LabelTaken(label.to_string()));
        }
        Ok(())
    }
}

impl Memory {
    /// Makes a change and records it.
    pub(super) fn change(&self, state: &mut State, record: Record) {
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
        let (mut state, now) = (self.open()?, self.clock.now());
        let calls = state.end_held_calls(name, now);
        let registered = &mut state.registered;
        let policies = registered.policies.extract_if(.., |(server, _), _| server == name).count();
        let grants = registered.grants.values_mut();
        let grants =
            grants.filter_map(|found| found.grant.leave_server(name).then_some(())).count();
        let was_declared = registered.declared.remove(name).is_some();
        let existed = registered.servers.remove(name).is_some() || was_declared;
        if existed || policies + grants + calls > 0 {
            self.change(&mut state, edit_record(edit, now).about_server(name));
        }
        Ok(existed)
    }

    pub(crate) fn servers(&self) -> Vec<Server> {
        self.lock().registered.servers.values().cloned().collect()
    }

    pub(crate) fn declared_servers(&self) -> Vec<DeclaredServer> {
        self.lock().registered.declared.values().cloned().collect()
    }

    pub(crate) fn note_declared(&self, servers: Vec<DeclaredServer>) -> Result<(), StoreError> {
        let mut state = self.open()?;
        let noted = servers.into_iter().map(|server| (server.name.clone(), server));
        state.registered.declared.extend(noted);
        Ok(())
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
        let grant = new.into_grant(now, &edit.actor);
        state.registered.check_label(&grant.label, &grant.id)?;
        let tokens = GrantTokens { current: token.hash(), previous: None };
        let created = ChangedGrant { grant: grant.clone(), tokens };
        state.registered.grants.insert(grant.id.clone(), created);
        self.change(&mut state, edit_record(edit, now).about_grant(&grant));
        Ok((grant, token))
    }

    pub(crate) fn rotate_grant(
        &self,
        id: &str,
        overlap: Duration,
        edit: Edit,
    ) -> Result<Option<Rotated>, StoreError> {
        let token = Token::new().ok_or_else(StoreError::no_randomness)?;
        let (mut state, now) = (self.open()?, self.clock.now());
        let found = state.registered.grants.get_mut(id);
        let Some(found) = found.filter(|found| found.grant.revoked_at.is_none()) else {
            return Ok(None);
        };
        let before = found.tokens;
        found.tokens = before.rotate(token.hash(), overlap, now);
        let changed = found.clone();
        self.change(&mut state, edit_record(edit, now).about_grant(&changed.grant));
        Ok(Some(Rotated { changed, token, before }))
    }

    pub(crate) fn edit_grant(
        &self,
        id: &str,
        changes: GrantEdit,
        edit: Edit,
    ) -> Result<Option<ChangedGrant>, StoreError> {
        let (mut state, now) = (self.open()?, self.clock.now());
        if let Some(label) = &changes.label {
            state.registered.check_label(label, id)?;
        }
        let found = state.registered.grants.get_mut(id);
        let Some(found) = found.filter(|found| found.grant.revoked_at.is_none()) else {
            return Ok(None);
        };
        found.grant = changes.apply(found.grant.clone());
        let edited = found.clone();
        self.change(&mut state, edit_record(edit, now).about_grant(&edited.grant));
        Ok(Some(edited))
    }

    pub(crate) fn revoke_grant(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<ChangedGrant>, StoreError> {
        let (mut state, now) = (self.open()?, self.clock.now());
        let Some(found) = state.registered.grants.get_mut(id) else { return Ok(None) };
        found.grant.revoked_at.get_or_insert(now);
        let revoked = found.clone();
        self.change(&mut state, edit_record(edit, now).about_grant(&revoked.grant));
        Ok(Some(revoked))
    }

    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.lock().registered.grants.values().map(|found| found.grant.clone()).collect()
    }

    pub(crate) fn grant(&self, id: &str) -> Option<Grant> {
        self.lock().registered.grants.get(id).map(|found| found.grant.clone())
    }

    pub(crate) fn grant_of(&self, token: &TokenHash) -> Option<Grant> {
        let grants = self.snapshot().grants;
        grants.into_iter().find(|(hash, _)| hash == token).map(|(_, grant)| grant)
    }

    pub(crate) fn note_uses(&self, uses: Vec<(String, Timestamp)>) -> Result<(), StoreError> {
        let mut state = self.open()?;
        for (grant, at) in uses {
            let noted = state.registered.uses.entry(grant).or_insert(at);
            *noted = at.max(*noted);
        }
        Ok(())
    }

    pub(crate) fn last_uses(&self) -> HashMap<String, Timestamp> {
        self.lock().registered.uses.clone()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let Registered { epoch, servers, policies, grants, .. } = &state.registered;
        Snapshot {
            epoch: *epoch,
            servers: servers.values().cloned().collect(),
            policies: policies.values().cloned().collect(),
            grants: grants.values().flat_map(|found| found.tokens.grants(&found.grant)).collect(),
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.lock().registered.epoch
    }
}
