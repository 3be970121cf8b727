//! What a request holds at its server beyond its answer.

use std::{any::Any, fmt, sync::Arc};

/// Something that lasts as long as the session or the subscription that a request begins. It is
/// an extension of the request; the transport that keeps the session or the subscription keeps
/// it too, and all others drop it with the request.
#[derive(Clone)]
pub struct Lease(Arc<dyn Any + Send + Sync>);

impl Lease {
    /// Holds this until the last clone is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Lease {
        Lease(Arc::new(held))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({})", Arc::strong_count(&self.0))
    }
}
