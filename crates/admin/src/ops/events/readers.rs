//! How many readers of events there are, in all and of one address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The most readers.
const MOST_READERS: usize = 1_000;
/// The most readers of one address (IPv6: `/64`): fewer than it may have connections, so that its
/// other requests are answered.
const MOST_OF_ADDRESS: usize = 64;

/// The readers by address.
#[derive(Debug, Clone, Default)]
pub(super) struct Readers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The place of one reader; it is freed on drop.
#[derive(Debug)]
pub(super) struct ReaderPlace {
    readers: Readers,
    address: IpAddr,
}

/// There are as many readers as there may be.
#[derive(Debug, thiserror::Error)]
#[error("{whose} may read at most {most} streams of events at a time")]
pub(crate) struct TooManyReaders {
    whose: &'static str,
    most: usize,
}

impl Readers {
    /// A place for a reader from this address.
    pub(super) fn admit(&self, address: IpAddr) -> Result<ReaderPlace, TooManyReaders> {
        let mut readers = self.lock();
        if readers.values().sum::<usize>() >= MOST_READERS {
            return Err(TooManyReaders { whose: "all addresses together", most: MOST_READERS });
        }
        let own = readers.entry(address).or_default();
        if *own >= MOST_OF_ADDRESS {
            return Err(TooManyReaders { whose: "one address", most: MOST_OF_ADDRESS });
        }
        *own += 1;
        Ok(ReaderPlace { readers: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // The map is consistent after every step, so a poisoned lock is still usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReaderPlace {
    fn drop(&mut self) {
        let mut readers = self.readers.lock();
        if let Some(own) = readers.get_mut(&self.address) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                readers.remove(&self.address);
            }
        }
    }
}
