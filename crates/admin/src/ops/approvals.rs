//! The held calls that wait for approval.

use sluice_store::Held;

use super::{Ops, Refused};

impl Ops {
    /// The pending approvals, the oldest first.
    pub(crate) async fn pending_approvals(&self) -> Result<Vec<Held>, Refused> {
        Ok(self.store.pending_approvals().await?)
    }
}
