//! Limits how many client connections and streams may be open at a time, in all and from one
//! address. When there is no place for another one, the oldest connection that does nothing is
//! closed; connections that prove useless otherwise are closed by their `activity`. Further
//! connections are accepted when those told to close are gone.

mod activity;
mod watched_io;

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

use crate::refusal::Refusal;

pub(crate) use activity::{Activity, CloseReason, InProgress};
pub(crate) use watched_io::WatchedIo;

/// Descriptors reserved for other uses: the store, health probes, the admin listener. Where
/// there are few descriptors, it is a quarter of them.
const SPARE_DESCRIPTORS: usize = 256;
/// Connections that are accepted only for health probes when there is no place for others.
const MOST_PROBES: usize = 16;
/// Of four connections, one address may have this many: a machine may run many agents, and a
/// proxy connects for all its clients.
const QUARTERS_OF_ADDRESS: usize = 3;
/// Connections that were told to close and still hold their descriptor, at most. Where there
/// are few descriptors, it is a quarter of the places.
const MOST_CLOSING: usize = 64;
/// How long to wait for one of them. It takes longer if the disk stalls, and health probes are
/// answered all the same.
const CLOSING_WAIT: Duration = Duration::from_millis(100);

/// Counts open connections and streams, within the process's limit of descriptors.
#[derive(Debug, Clone)]
pub(crate) struct Connections(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    open: AtomicUsize,
    most: usize,
    most_closing: usize,
    admitted: Mutex<Admitted>,
    /// A connection that was told to close is gone.
    closed: Notify,
}

type ByAge = BTreeMap<u64, Arc<Activity>>;

/// The connections that have a place.
#[derive(Debug, Default)]
struct Admitted {
    next: u64,
    by_age: ByAge,
    by_address: HashMap<IpAddr, usize>,
    /// Connections for health probes, which do not count as open.
    probes: ByAge,
    closing: usize,
}

/// A reserved place for one connection or stream; it is freed on drop.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Counts>);

/// What a new connection may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Everything,
    /// There is no place for it, except for a health probe.
    Probes,
}

/// A connection's place, which is freed on drop.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) activity: Arc<Activity>,
    pub(crate) usage: Use,
    id: u64,
    counts: Arc<Counts>,
}

/// The number of client connections and streams for which there are descriptors. As many
/// are left for the connections to servers.
pub(crate) fn capacity(descriptors: usize) -> usize {
    (descriptors - SPARE_DESCRIPTORS.min(descriptors / 4)) / 2
}

impl Connections {
    pub(crate) fn new(descriptors: usize) -> Connections {
        let most = capacity(descriptors);
        Connections(Arc::new(Counts {
            open: AtomicUsize::new(0),
            most,
            most_closing: MOST_CLOSING.min(most / 4).max(1),
            admitted: Mutex::default(),
            closed: Notify::new(),
        }))
    }

    /// Reserves a place for a stream to a server.
    pub(crate) fn acquire(&self) -> Result<Slot, Refusal> {
        let slot = Slot(Arc::clone(&self.0));
        let counts = &self.0;
        if counts.open.fetch_add(1, Ordering::Relaxed) >= counts.most
            && !counts.evict(&mut counts.lock(), None)
        {
            // Dropping the slot frees the place.
            return Err(Refusal::Busy("no place for a further connection or stream"));
        }
        Ok(slot)
    }

    /// Reserves a place for a new connection; `None` if there is not even one for a probe.
    pub(crate) fn admit(&self, address: IpAddr) -> Option<Place> {
        let address = network(address);
        let counts = &self.0;
        let mut admitted = counts.lock();
        let of_address = admitted.by_address.get(&address).copied().unwrap_or(0);
        let most_of_address = (counts.most * QUARTERS_OF_ADDRESS / 4).max(1);
        let has_share = of_address < most_of_address || counts.evict(&mut admitted, Some(address));
        let has_place = has_share
            && (counts.open.load(Ordering::Relaxed) < counts.most
                || counts.evict(&mut admitted, None));
        let usage = if has_place { Use::Everything } else { Use::Probes };
        if usage == Use::Probes
            && admitted.probes.len() >= MOST_PROBES
            && !counts.evict_probe(&mut admitted)
        {
            return None;
        }
        let activity = Arc::new(Activity::new(address));
        let id = admitted.next;
        admitted.next += 1;
        match usage {
            Use::Everything => {
                counts.open.fetch_add(1, Ordering::Relaxed);
                *admitted.by_address.entry(address).or_default() += 1;
                admitted.by_age.insert(id, Arc::clone(&activity));
            }
            Use::Probes => _ = admitted.probes.insert(id, Arc::clone(&activity)),
        }
        drop(admitted);
        Some(Place { activity, usage, id, counts: Arc::clone(counts) })
    }

    /// Waits until few connections are still closing.
    pub(crate) async fn until_closed(&self) {
        let few = async {
            // A connection that closes between the check and the wait leaves its permit.
            while self.0.lock().closing >= self.0.most_closing {
                self.0.closed.notified().await;
            }
        };
        let _ = timeout(CLOSING_WAIT, few).await;
    }

    /// How many connections and streams there may be.
    pub(crate) fn most(&self) -> usize {
        self.0.most
    }

    pub(crate) fn count(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }
}

/// The network that one client may have all addresses of: for IPv6 a `/64`.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        IpAddr::V4(address) => IpAddr::V4(address),
    }
}

impl Counts {
    fn lock(&self) -> MutexGuard<'_, Admitted> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a connection that does nothing. Its place is free at once; its descriptor is
    /// counted as closing. Returns whether there was one.
    fn evict(&self, admitted: &mut Admitted, address: Option<IpAddr>) -> bool {
        let idle = admitted.oldest_idle(address).filter(|_| admitted.closing < self.most_closing);
        let Some(activity) = idle.and_then(|id| admitted.remove(id)) else { return false };
        self.open.fetch_sub(1, Ordering::Relaxed);
        admitted.closing += 1;
        activity.close();
        true
    }

    /// Closes a connection for health probes that does nothing.
    fn evict_probe(&self, admitted: &mut Admitted) -> bool {
        let idle = admitted.probes.iter().find(|(_, activity)| activity.is_idle());
        let idle = idle.map(|(id, _)| *id).filter(|_| admitted.closing < self.most_closing);
        let Some(activity) = idle.and_then(|id| admitted.probes.remove(&id)) else { return false };
        admitted.closing += 1;
        activity.close();
        true
    }
}

impl Admitted {
    /// The oldest connection that does nothing, of one address or any; first those on which
    /// nothing has ever succeeded.
    fn oldest_idle(&self, address: Option<IpAddr>) -> Option<u64> {
        let idle = || {
            let of = |it: &Activity| address.is_none_or(|address| it.address == address);
            self.by_age.iter().filter(move |(_, activity)| activity.is_idle() && of(activity))
        };
        let useless = idle().find(|(_, activity)| !activity.has_succeeded());
        useless.or_else(|| idle().next()).map(|(id, _)| *id)
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Activity>> {
        let activity = self.by_age.remove(&id)?;
        if let Some(count) = self.by_address.get_mut(&activity.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&activity.address);
            }
        }
        Some(activity)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut admitted = self.counts.lock();
        if self.activity.was_closed() {
            admitted.closing -= 1;
            self.counts.closed.notify_one();
        } else if self.usage == Use::Probes {
            admitted.probes.remove(&self.id);
        } else if admitted.remove(self.id).is_some() {
            self.counts.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{Connections, MOST_PROBES, Place, Use, capacity, network};

    const fn address(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
    }

    fn usages(places: &[Place]) -> Vec<Use> {
        places.iter().map(|place| place.usage).collect()
    }

    #[test]
    fn few_descriptors_leave_places_too() {
        assert_eq!([0, 1, 8, 256, 1024, 100_000].map(capacity), [0, 0, 3, 96, 384, 49_872]);
    }

    #[test]
    fn busy_connections_stay_and_idle_ones_make_room() {
        let connections = Connections::new(32);
        let one = |last| connections.admit(address(last)).unwrap();
        let mut places: Vec<_> = (0..12).map(|_| one(1)).collect();
        // Nine of twelve are the share of one address, so the three oldest were closed.
        assert_eq!(connections.count(), 9);
        let closed = |place: &Place| place.activity.was_closed();
        assert_eq!(places.iter().map(closed).collect::<Vec<_>>()[..4], [true, true, true, false]);
        places.drain(..3);
        let busy: Vec<_> = places.iter().map(|place| place.activity.begin()).collect();
        let refused: Vec<_> = (0..MOST_PROBES).map(|_| one(1)).collect();
        assert!(usages(&refused).iter().all(|usage| *usage == Use::Probes));
        let probe = one(1);
        assert_eq!(probe.usage, Use::Probes);
        assert!(closed(&refused[0]), "a probe's connection that does nothing makes room, too");
        assert!(!closed(&refused[1]));
        let probing: Vec<_> = refused.iter().map(|place| place.activity.begin()).collect();
        let _probing = probe.activity.begin();
        assert!(connections.admit(address(1)).is_none());
        drop((refused, probing));
        // Another address has the rest.
        places.extend((0..3).map(|_| one(2)));
        assert!(usages(&places).iter().all(|usage| *usage == Use::Everything));
        assert!(connections.acquire().is_ok(), "an idle connection makes room for a stream");
        drop((busy, places));
        assert_eq!(connections.count(), 0);
    }

    #[test]
    fn an_address_of_ipv6_is_its_network() {
        let network_of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(network_of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network_of("::ffff:192.0.2.1"), "192.0.2.1");
    }
}
