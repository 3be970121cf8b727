//! The audit log: reading it page by page, and checking it.

use sluice_store::{Filter, Verified};

use super::{Ops, Refused};

/// Some records, as JSON text with their places in the log.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) records: Vec<(i64, String)>,
    /// The place of the last one, if more follow.
    pub(crate) next: Option<i64>,
}

impl Ops {
    /// At most `limit` records that pass the filter.
    pub(crate) async fn records(&self, filter: Filter, limit: usize) -> Result<Page, Refused> {
        // One more tells whether there are more.
        let filter = Filter { limit: Some(limit.saturating_add(1)), ..filter };
        let mut records = self.read(move |store| store.records(&filter)).await?;
        let has_more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().filter(|_| has_more).map(|(place, _)| *place);
        Ok(Page { records, next })
    }

    /// Checks the whole log.
    pub(crate) async fn verify(&self) -> Result<Verified, Refused> {
        self.store.flush().await?;
        self.read(sluice_store::Store::verify).await
    }
}
