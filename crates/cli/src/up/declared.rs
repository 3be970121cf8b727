//! Servers that the configuration's files declare, compared with what they declared before: stored
//! policies and grants stay with a server that is edited, and with one that comes back as it was,
//! but never pass to another server that takes its name.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use sluice_config::Config;
use sluice_store::{Actor, DeclaredServer, Edit, Grant, Key, Name, Store, StoreError};

/// The servers of new file contents.
pub(super) struct Declared {
    /// All that files declare or have declared, as they are to be noted.
    servers: Vec<DeclaredServer>,
    is_changed: bool,
    /// Names that another server had before.
    taken_over: Vec<Name>,
}

impl Declared {
    /// Compares new file contents with what was noted.
    pub(super) async fn compare(
        config: &Config,
        store: &Store,
        key: &Key,
    ) -> Result<Declared, StoreError> {
        let noted = store.declared_servers().await?;
        let before: HashMap<_, _> = noted.iter().map(|server| (&server.name, server)).collect();
        let mut servers: Vec<_> = config
            .servers
            .iter()
            .map(|server| DeclaredServer {
                name: server.name.clone(),
                identity: identify(server.transport.destination().expose(), key),
                is_declared: true,
            })
            .collect();
        let is_another = |server: &&DeclaredServer| {
            let before = before.get(&server.name);
            before.is_some_and(|old| !old.is_declared && old.identity != server.identity)
        };
        let taken_over = servers.iter().filter(is_another).map(|one| one.name.clone()).collect();
        let is_gone = |old: &&DeclaredServer| !servers.iter().any(|one| one.name == old.name);
        let gone: Vec<_> = noted.iter().filter(is_gone).cloned().collect();
        servers.extend(gone.into_iter().map(|old| DeclaredServer { is_declared: false, ..old }));
        let is_new = |server: &DeclaredServer| before.get(&server.name) != Some(&server);
        Ok(Declared { is_changed: servers.iter().any(is_new), servers, taken_over })
    }

    /// Removes what is stored for the earlier servers whose names others have now.
    pub(super) async fn forget_earlier(&self, store: &Store) -> Result<(), StoreError> {
        for name in &self.taken_over {
            let stored = store.snapshot().await?;
            // A stored server that has the name is a conflict, which is reported elsewhere.
            if stored.servers.iter().any(|server| server.name == *name) {
                continue;
            }
            let policies = stored.policies.iter().filter(|policy| policy.server == *name);
            let grants = store.grants().await?;
            let what = describe(policies.map(|policy| &policy.name), &filter_live(&grants, name));
            if let Some(what) = what {
                let message = format!("server `{name}` is another one than before: {what}");
                tracing::warn!(
                    "{message}; `sluice policy rollback` and `sluice grant edit` take back what this server should have as well"
                );
                store.remove_server(name, Edit { actor: Actor::gateway(), message }).await?;
            }
        }
        Ok(())
    }

    /// Notes what files declare now.
    pub(super) async fn note(self, store: &Store) -> Result<(), StoreError> {
        if self.is_changed { store.note_declared(self.servers).await } else { Ok(()) }
    }
}

/// A keyed digest, because a URL may contain a secret.
fn identify(destination: &str, key: &Key) -> String {
    let keyed = key.derive(&format!("declared server {destination}"));
    HEXLOWER.encode(&keyed.as_bytes()[..16])
}

/// The labels of the grants that name a server and are not revoked.
fn filter_live<'g>(grants: &'g [Grant], server: &Name) -> Vec<&'g Name> {
    let names = |grant: &&Grant| grant.revoked_at.is_none() && grant.servers.contains(server);
    grants.iter().filter(names).map(|grant| &grant.label).collect()
}

/// What is removed, in words; `None` if that is nothing.
fn describe<'p>(policies: impl Iterator<Item = &'p Name>, grants: &[&Name]) -> Option<String> {
    let list = |names: &[&Name]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let policies: Vec<_> = policies.collect();
    let removed = (!policies.is_empty())
        .then(|| format!("the stored policies {} are removed", list(&policies)));
    let left =
        (!grants.is_empty()).then(|| format!("it is taken out of the grants {}", list(grants)));
    match (removed, left) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(one),
        (Some(removed), Some(left)) => Some(format!("{removed}, and {left}")),
    }
}
