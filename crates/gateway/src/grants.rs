//! The active grants, found by token without a lock.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use arc_swap::ArcSwap;
use sluice_policy::Timestamp;
use sluice_store::{Grant, GrantRef, Name, TokenHash};

use crate::shares::OwnUsage;

/// A caller: a grant, or an anonymous caller where that is allowed.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) reference: GrantRef,
    pub(crate) principal: Option<Arc<str>>,
    pub(crate) servers: Vec<Name>,
    pub(crate) policy: Name,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) is_revoked: bool,
    pub(crate) usage: OwnUsage,
    last_use: LastUse,
}

/// When a token was last used, in milliseconds, unless that was taken to be stored: then zero.
#[derive(Debug, Default)]
struct LastUse(AtomicI64);

impl LastUse {
    fn note(&self, at: Timestamp) {
        self.0.store(at.as_millis(), Ordering::Relaxed);
    }

    fn take(&self) -> Option<Timestamp> {
        let at = self.0.swap(0, Ordering::Relaxed);
        (at != 0).then(|| Timestamp::from_millis(at))
    }
}

impl Holder {
    fn of(grant: &Grant) -> Holder {
        Holder {
            reference: GrantRef {
                id: grant.id.as_str().into(),
                label: grant.label.as_str().into(),
            },
            principal: grant.principal.as_deref().map(Into::into),
            servers: grant.servers.clone(),
            policy: grant.policy.clone(),
            expires_at: grant.expires_at,
            is_revoked: grant.revoked_at.is_some(),
            last_use: LastUse::default(),
            usage: OwnUsage::default(),
        }
    }

    /// The holder that follows `before` when its grant has changed.
    fn succeed(grant: &Grant, before: Option<&Arc<Holder>>) -> Arc<Holder> {
        let holder = Holder::of(grant);
        if let Some(at) = before.and_then(|before| before.last_use.take()) {
            holder.last_use.note(at);
        }
        Arc::new(holder)
    }

    /// Anonymous callers of `server`, without a token.
    pub(crate) fn anonymous(server: &Name, policy: &Name) -> Holder {
        let id: Arc<str> = format!("anonymous:{server}").into();
        Holder {
            reference: GrantRef { id: Arc::clone(&id), label: id },
            principal: None,
            servers: vec![server.clone()],
            policy: policy.clone(),
            expires_at: None,
            is_revoked: false,
            last_use: LastUse::default(),
            usage: OwnUsage::default(),
        }
    }

    /// The client that started this process as a wrapper of `server`.
    pub(crate) fn wrap(server: &Name, policy: &Name) -> Holder {
        let id: Arc<str> = format!("wrap:{server}").into();
        let reference = GrantRef { id: Arc::clone(&id), label: id };
        Holder { reference, ..Holder::anonymous(server, policy) }
    }

    pub(crate) fn id(&self) -> &str {
        &self.reference.id
    }

    /// Notes that the grant was used.
    pub(crate) fn note_use(&self, at: Timestamp) {
        self.last_use.note(at);
    }

    /// Whether the grant is valid at this time.
    pub(crate) fn is_valid(&self, at: Timestamp) -> bool {
        !self.is_revoked && self.expires_at.is_none_or(|end| at < end)
    }

    /// The person or agent behind the grant, else the grant itself.
    pub(crate) fn owner(&self) -> &str {
        self.principal.as_deref().unwrap_or(&self.reference.id)
    }
}

type Shard = HashMap<TokenHash, Arc<Holder>>;

/// All grants by token. They are split into many immutable maps, each replaced as a
/// whole, so that one change among 100,000 grants copies only a few hundred.
#[derive(Debug)]
pub(crate) struct Grants {
    shards: Vec<ArcSwap<Shard>>,
}

impl Default for Grants {
    fn default() -> Grants {
        Grants { shards: (0..=u8::MAX).map(|_| ArcSwap::default()).collect() }
    }
}

impl Grants {
    /// The grant a token belongs to, valid or not.
    pub(crate) fn find(&self, token: &TokenHash) -> Option<Arc<Holder>> {
        self.shards.get(usize::from(token.shard()))?.load().get(token).cloned()
    }

    /// Replaces all grants.
    pub(crate) fn replace(&self, grants: &[(TokenHash, Grant)]) {
        let mut shards = vec![Shard::new(); self.shards.len()];
        for (token, grant) in grants {
            if let Some(shard) = shards.get_mut(usize::from(token.shard())) {
                shard.insert(*token, Holder::succeed(grant, self.find(token).as_ref()));
            }
        }
        for (place, shard) in self.shards.iter().zip(shards) {
            place.store(Arc::new(shard));
        }
    }

    /// Adds a holder that is not a stored grant.
    pub(crate) fn hold(&self, token: &TokenHash, holder: &Arc<Holder>) {
        if let Some(place) = self.shards.get(usize::from(token.shard())) {
            let one = Shard::from([(*token, Arc::clone(holder))]);
            place.store(Arc::new(one));
        }
    }

    /// The ids of the grants that were used since the last time, and when.
    pub(crate) fn take_uses(&self) -> Vec<(String, Timestamp)> {
        let take =
            |holder: &Arc<Holder>| holder.last_use.take().map(|at| (holder.id().to_owned(), at));
        let of_shard =
            |shard: &ArcSwap<Shard>| -> Vec<_> { shard.load().values().filter_map(take).collect() };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// Adds or replaces the grant of a token, or removes it.
    pub(crate) fn set(&self, token: &TokenHash, grant: Option<&Grant>) {
        let Some(place) = self.shards.get(usize::from(token.shard())) else { return };
        place.rcu(|shard| {
            let mut shard = Shard::clone(shard);
            match grant {
                Some(grant) => shard.insert(*token, Holder::succeed(grant, shard.get(token))),
                None => shard.remove(token),
            };
            shard
        });
    }
}
