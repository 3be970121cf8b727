//! Limits how many client connections and streams may be open at a time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::refusal::Refusal;

/// Descriptors reserved for other uses: files, upstreams, the admin listener.
const SPARE_DESCRIPTORS: usize = 256;

/// Counts open connections and streams, within the process's limit of descriptors.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Arc<AtomicUsize>,
    most: usize,
}

/// A reserved place for one connection or stream; it is freed on drop.
#[derive(Debug)]
pub(crate) struct Slot(Arc<AtomicUsize>);

impl Connections {
    pub(crate) fn new(descriptors: usize) -> Connections {
        Connections { open: Arc::default(), most: descriptors.saturating_sub(SPARE_DESCRIPTORS) }
    }

    /// Reserves a place for one more client connection, or for a stream to a server.
    pub(crate) fn acquire(&self) -> Result<Slot, Refusal> {
        let slot = Slot(Arc::clone(&self.open));
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.most {
            // Dropping the slot frees the place.
            return Err(Refusal::Busy);
        }
        Ok(slot)
    }

    pub(crate) fn count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
