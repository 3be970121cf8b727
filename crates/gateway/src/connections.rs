//! How many connections and streams of clients may be open at a time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::refusal::Refusal;

/// Descriptors kept for what is not a client's: files, upstreams, the admin listener.
const SPARE_DESCRIPTORS: usize = 256;

/// Counts open connections and streams, within what the process may have open.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Arc<AtomicUsize>,
    most: usize,
}

/// Room for one connection or stream, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot(Arc<AtomicUsize>);

impl Connections {
    pub(crate) fn new(descriptors: usize) -> Connections {
        Connections { open: Arc::default(), most: descriptors.saturating_sub(SPARE_DESCRIPTORS) }
    }

    /// Room for one more connection, of a client or for a stream of its own at the server.
    pub(crate) fn acquire(&self) -> Result<Slot, Refusal> {
        let slot = Slot(Arc::clone(&self.open));
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.most {
            // Dropping gives the room back.
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
