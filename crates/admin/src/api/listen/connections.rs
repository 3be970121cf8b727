//! The connections of the admin listener. When there are too many, in all or of one address, the
//! oldest one without a request in progress is closed, so silent clients keep nobody out.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

/// The most connections, so that the admin listener cannot use up the file descriptors that
/// agents need.
const MOST: usize = 256;
/// The most connections of one address (IPv6: `/64`).
const MOST_OF_ADDRESS: usize = 192;

/// All open connections, by age.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<ByAge>>);

#[derive(Debug, Default)]
struct ByAge {
    next: u64,
    open: BTreeMap<u64, (IpAddr, Arc<Usage>)>,
}

#[derive(Debug, Default)]
struct Usage {
    in_progress: AtomicUsize,
    close: Notify,
}

/// The place of one connection; it is freed on drop.
#[derive(Debug)]
pub(super) struct Place {
    connections: Connections,
    number: u64,
    usage: Arc<Usage>,
}

/// A request in progress, until its answer was sent.
#[derive(Debug)]
pub(super) struct InProgress(Arc<Usage>);

impl Connections {
    /// A place for a connection from this address; `None` if there is none.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Place> {
        let address = find_network(address);
        let mut all = self.lock();
        let is_own = |owner: IpAddr| owner == address;
        if all.open.values().filter(|(owner, _)| is_own(*owner)).count() >= MOST_OF_ADDRESS {
            all.close_oldest(is_own)?;
        } else if all.open.len() >= MOST {
            all.close_oldest(|_| true)?;
        }
        let (number, usage) = (all.next, Arc::<Usage>::default());
        all.next += 1;
        all.open.insert(number, (address, Arc::clone(&usage)));
        Some(Place { connections: self.clone(), number, usage })
    }

    fn lock(&self) -> MutexGuard<'_, ByAge> {
        // The map is consistent after every step, so a poisoned lock is still usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ByAge {
    /// Closes the oldest connection of these addresses without a request in progress; `None` if
    /// there is none.
    fn close_oldest(&mut self, is_of: impl Fn(IpAddr) -> bool) -> Option<()> {
        let is_idle = |usage: &Usage| usage.in_progress.load(Ordering::Relaxed) == 0;
        let mut idle =
            self.open.iter().filter(|(_, (owner, usage))| is_of(*owner) && is_idle(usage));
        let number = idle.next().map(|(number, _)| *number)?;
        let (_, usage) = self.open.remove(&number)?;
        usage.close.notify_one();
        Some(())
    }
}

impl Place {
    /// Notes a request.
    pub(super) fn begin(&self) -> InProgress {
        self.usage.in_progress.fetch_add(1, Ordering::Relaxed);
        InProgress(Arc::clone(&self.usage))
    }

    /// Waits until the connection must make room for another.
    pub(super) async fn until_closed(&self) {
        self.usage.close.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.number);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An IPv6 client has a whole `/64`.
pub(in crate::api) fn find_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}
