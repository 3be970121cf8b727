//! The audit log: reading it page by page, and checking it.

use sluice_store::{Filter, HeadComparison, Page, SignedHead, Verified};

use super::{Ops, Refused};

impl Ops {
    /// At most `limit` records that pass the filter.
    pub(crate) async fn records(&self, filter: &Filter, limit: usize) -> Result<Page, Refused> {
        Ok(self.store.page(filter, limit).await?)
    }

    /// Checks the whole log.
    pub(crate) async fn verify(&self) -> Result<Verified, Refused> {
        self.store.flush().await?;
        Ok(self.store.verify().await?)
    }

    /// Compares the log with heads that were exported earlier.
    pub(crate) async fn compare_heads(
        &self,
        heads: Vec<SignedHead>,
    ) -> Result<HeadComparison, Refused> {
        Ok(self.store.compare_heads(heads).await?)
    }
}
