//! Which requests have records in a block: a Bloom filter for each, so that a search by request
//! reads only blocks that may hold it, and appending still maintains no index.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::id::Id;

/// Bytes of a filter: 16 bits for each record of a block. At most one block in a thousand is
/// read in vain.
const BYTES: usize = 2_048;
/// Bits that each request sets.
const HASHES: u64 = 8;

/// The requests of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestFilter(Vec<u8>);

impl RequestFilter {
    pub(super) fn empty() -> RequestFilter {
        RequestFilter(vec![0; BYTES])
    }

    /// Stores the filter of a block.
    pub(super) fn write(&self, connection: &Connection, block: i64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO block_requests (block, filter) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![block, self.0]).map(|_| ())
    }

    /// The filter of a block; `None` if it has none.
    pub(super) fn read(
        connection: &Connection,
        block: i64,
    ) -> rusqlite::Result<Option<RequestFilter>> {
        let sql = "SELECT filter FROM block_requests WHERE block = ?1";
        let filter = connection.prepare_cached(sql)?.query_row([block], |row| row.get(0));
        Ok(filter.optional()?.map(RequestFilter))
    }

    pub(super) fn insert(&mut self, request: Id) {
        for (byte, bit) in places(request) {
            if let Some(byte) = self.0.get_mut(byte) {
                *byte |= bit;
            }
        }
    }

    /// Whether the block may have records of this request; `false` is certain.
    pub(super) fn may_hold(&self, request: Id) -> bool {
        places(request).all(|(byte, bit)| self.0.get(byte).is_some_and(|byte| byte & bit != 0))
    }
}

/// The bits of a request: by double hashing, as usual for Bloom filters.
fn places(request: Id) -> impl Iterator<Item = (usize, u8)> {
    let (high, low) = request.halves();
    let (first, step) = (mix(low ^ high.rotate_left(32)), mix(high ^ !low) | 1);
    (0..HASHES).map(move |index| {
        let place = first.wrapping_add(index.wrapping_mul(step)) % (BYTES as u64 * 8);
        (usize::try_from(place / 8).unwrap_or_default(), 1 << (place % 8))
    })
}

/// The finaliser of `SplitMix64`: each bit of the result depends on all bits.
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Leaves out the blocks that certainly have no record of any of these requests.
pub(super) fn retain(
    connection: &Connection,
    blocks: Vec<i64>,
    requests: &[Id],
) -> rusqlite::Result<Vec<i64>> {
    let mut kept = Vec::new();
    for block in blocks {
        let filter = RequestFilter::read(connection, block)?;
        if filter.is_none_or(|filter| requests.iter().any(|request| filter.may_hold(*request))) {
            kept.push(block);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use sluice_policy::Timestamp;

    use super::RequestFilter;
    use crate::id::new_id;

    #[test]
    fn a_filter_holds_what_was_inserted_and_little_else() {
        let id = || new_id(Timestamp::from_millis(1_794_700_000_000));
        let mut filter = RequestFilter::empty();
        let ids: Vec<_> = (0..1_024).map(|_| id()).collect();
        for id in &ids {
            filter.insert(*id);
        }
        assert!(ids.iter().all(|id| filter.may_hold(*id)));
        let wrong = (0..100_000).filter(|_| filter.may_hold(id())).count();
        assert!(wrong < 150, "{wrong} of 100,000");
        assert!(!RequestFilter::empty().may_hold(id()));
    }
}
