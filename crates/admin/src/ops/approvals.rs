//! Approvals: the calls that wait for people.

use sluice_store::Approval;

use super::{Ops, Refused};
use crate::clock;

impl Ops {
    /// The calls that wait now, each with its id, the oldest first.
    pub(crate) async fn pending_approvals(&self) -> Result<Vec<(String, Approval)>, Refused> {
        let now = clock::now();
        self.read(move |store| store.pending_approvals(now)).await
    }
}
