//! Fairness: how much of each resource one grant, or one server, may use at a time.
//!
//! Usage is counted in atomics, without a lock on the path of a call. A grant at its bound is
//! refused with 429, a server at its own with 503, and the error names the bound; other grants
//! and servers notice nothing. What was taken is given back when the guard is dropped.

mod claims;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

pub(crate) use self::claims::{
    StreamPlace, Turn, claim_lease, claim_listener, claim_subscriptions,
};

/// How much of each resource one grant may use at a time, and one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    /// Requests in progress of one grant, also those whose client is gone.
    pub calls: usize,
    /// Streams that stay open.
    pub streams: usize,
    /// Sessions that the gateway keeps for a server.
    pub sessions: usize,
    /// Processes of servers with one for each session.
    pub children: usize,
    /// Subscriptions to resources.
    pub subscriptions: usize,
    /// Requests in progress at one server.
    pub server_calls: usize,
}

impl ShareLimits {
    /// No bounds, for a gateway with a single client.
    pub const NONE: ShareLimits = ShareLimits {
        calls: usize::MAX,
        streams: usize::MAX,
        sessions: usize::MAX,
        children: usize::MAX,
        subscriptions: usize::MAX,
        server_calls: usize::MAX,
    };
}

/// Something that grants share, or servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Calls,
    Streams,
    Sessions,
    Children,
    Subscriptions,
}

/// How much of each resource one grant or one server uses.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    calls: AtomicUsize,
    streams: AtomicUsize,
    sessions: AtomicUsize,
    children: AtomicUsize,
    subscriptions: AtomicUsize,
}

impl Usage {
    fn counter(&self, resource: Resource) -> &AtomicUsize {
        match resource {
            Resource::Calls => &self.calls,
            Resource::Streams => &self.streams,
            Resource::Sessions => &self.sessions,
            Resource::Children => &self.children,
            Resource::Subscriptions => &self.subscriptions,
        }
    }
}

/// A grant's usage, found on first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnUsage(OnceLock<Arc<Usage>>);

/// A part of a resource; it is given back on drop.
#[derive(Debug)]
pub(crate) struct Share {
    usage: Arc<Usage>,
    resource: Resource,
    count: usize,
}

impl Share {
    /// Takes `count` more; `None` if that would be more than `most`.
    fn take(usage: &Arc<Usage>, resource: Resource, count: usize, most: usize) -> Option<Share> {
        let share = Share { usage: Arc::clone(usage), resource, count };
        let before = usage.counter(resource).fetch_add(count, Ordering::Relaxed);
        // Dropping the share gives it back.
        (before.saturating_add(count) <= most).then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.usage.counter(self.resource).fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// A bound that a grant or a server has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The setting.
    pub(crate) name: &'static str,
    pub(crate) most: usize,
    /// Whether the server is at its bound, and not the grant.
    pub(crate) is_of_server: bool,
    pub(crate) resource: Resource,
}

impl Bound {
    /// What is refused, and what to do.
    pub(crate) fn message(&self) -> String {
        let Bound { name, most, .. } = self;
        let (what, hint) = match self.resource {
            Resource::Calls => ("requests in progress", "wait for answers"),
            Resource::Streams => ("open streams", "close some"),
            Resource::Sessions => ("sessions", "end some with DELETE"),
            Resource::Children => ("sessions with a process each", "end some with DELETE"),
            Resource::Subscriptions => ("subscriptions", "unsubscribe from some"),
        };
        let who = if self.is_of_server { "server" } else { "grant" };
        format!("this {who} has {most} {what}, the most that `{name}` allows it here: {hint}")
    }

    /// After how many seconds it is worth trying again, if nothing else is done.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        (self.resource == Resource::Calls).then_some(1)
    }
}

/// The limits, and the usage of each grant.
#[derive(Debug)]
pub(crate) struct Shares {
    limits: ShareLimits,
    /// The most streams of one grant that need a connection to a server each.
    connected_streams: usize,
    grants: Mutex<HashMap<Arc<str>, Weak<Usage>>>,
}

impl Shares {
    /// No grant or server may use more than half of the places for `connections`; a stream with
    /// a connection of its own to a server takes two.
    pub(crate) fn new(limits: ShareLimits, connections: usize) -> Shares {
        if limits == ShareLimits::NONE {
            return Shares { limits, connected_streams: usize::MAX, grants: Mutex::default() };
        }
        let part = |of: usize, most: usize| most.min((connections / of).max(1));
        let connected_streams = part(4, limits.streams);
        let limits = ShareLimits {
            calls: part(2, limits.calls),
            streams: part(2, limits.streams),
            server_calls: part(2, limits.server_calls),
            ..limits
        };
        Shares { limits, connected_streams, grants: Mutex::default() }
    }

    /// The usage of a grant, which all its holders have in common.
    fn usage_of<'h>(&self, id: &Arc<str>, own: &'h OwnUsage) -> &'h Arc<Usage> {
        own.0.get_or_init(|| {
            let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(usage) = grants.get(id).and_then(Weak::upgrade) {
                return usage;
            }
            if grants.len() == grants.capacity() {
                grants.retain(|_, usage| usage.strong_count() > 0);
            }
            let usage = Arc::default();
            grants.insert(Arc::clone(id), Arc::downgrade(&usage));
            usage
        })
    }

    fn bound_of(&self, resource: Resource) -> Bound {
        let limits = &self.limits;
        let (name, most) = match resource {
            Resource::Calls => ("limits.calls", limits.calls),
            Resource::Streams => ("limits.streams", limits.streams),
            Resource::Sessions => ("limits.sessions", limits.sessions),
            Resource::Children => ("limits.children", limits.children),
            Resource::Subscriptions => ("limits.subscriptions", limits.subscriptions),
        };
        Bound { name, most, is_of_server: false, resource }
    }

    fn connected_stream_bound(&self) -> Bound {
        Bound { most: self.connected_streams, ..self.bound_of(Resource::Streams) }
    }

    fn server_bound(&self) -> Bound {
        let resource = Resource::Calls;
        let most = self.limits.server_calls;
        Bound { name: "limits.server_calls", most, is_of_server: true, resource }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{OwnUsage, Resource, Share, ShareLimits, Shares, Usage};

    const LIMITS: ShareLimits = ShareLimits { calls: 100, ..ShareLimits::NONE };

    #[test]
    fn a_share_is_given_back_on_drop() {
        let usage = Arc::<Usage>::default();
        let take = |count| Share::take(&usage, Resource::Sessions, count, 3);
        let two = take(2).unwrap();
        assert!(take(2).is_none());
        let one = take(1).unwrap();
        assert!(take(1).is_none());
        assert!(Share::take(&usage, Resource::Calls, 3, 3).is_some(), "another resource");
        drop(two);
        assert!(take(2).is_some());
        drop(one);
        assert!(take(3).is_some());
    }

    #[test]
    fn the_holders_of_one_grant_have_one_usage_until_all_are_gone() {
        let shares = Shares::new(LIMITS, 1000);
        let (alice, bob) = (Arc::from("alice"), Arc::from("bob"));
        let [first, second, other] = [(); 3].map(|()| OwnUsage::default());
        let usage = Arc::clone(shares.usage_of(&alice, &first));
        assert!(Arc::ptr_eq(&usage, shares.usage_of(&alice, &second)));
        assert!(!Arc::ptr_eq(&usage, shares.usage_of(&bob, &other)));
        drop((first, second, usage));
        for number in 0..1000 {
            shares.usage_of(&number.to_string().into(), &OwnUsage::default());
        }
        assert!(shares.grants.lock().unwrap().len() < 500, "the usage of those gone is forgotten");
    }

    #[test]
    fn no_grant_may_use_all_connections() {
        let few = Shares::new(LIMITS, 80);
        assert_eq!((few.limits.calls, few.limits.server_calls), (40, 40));
        assert_eq!((few.limits.streams, few.connected_streams), (40, 20));
        assert_eq!(few.limits.sessions, usize::MAX);
        assert_eq!(Shares::new(LIMITS, 0).limits.calls, 1);
        assert_eq!(Shares::new(ShareLimits::NONE, 0).limits, ShareLimits::NONE);
    }
}
