//! Finds old reservations that this process does not remember, because they were made
//! before it started, by another process, or too long ago. The charges are in the row of
//! the decision.
//!
//! This searches one day of the log, from the request's timestamp.
//! The path of a call avoids the scan: see [`Mark`](crate::id::Mark).

use rusqlite::Connection;
use sluice_policy::{Amount, Decimal, Timestamp};

use super::read;
use crate::{
    StoreError,
    counter::{Charged, CounterKey, Slot},
    id::Id,
    log::Filter,
};

/// A charge as it is stored: server, scope, owner and name of the counter, the start of
/// the window, and the amount.
type Columns<T> = (T, T, T, T, i64, String);

/// The charges of a request's last reservation, if it is open: the request has no later
/// record, which would be its outcome or the release of its charges.
pub(super) fn find_open(
    connection: &Connection,
    id: Id,
) -> Result<Option<Vec<Charged>>, StoreError> {
    let filter = Filter { requests: vec![id], ..Filter::default() };
    let entries = read::search(connection, &filter, usize::MAX)?;
    let Some(last) = entries.last() else { return Ok(None) };
    let sql = "SELECT charges FROM records WHERE seq = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let charges: Option<String> = statement.query_row([last.cursor.0], |row| row.get(0))?;
    charges.map(|charges| decode(&charges)).transpose()
}

/// The charges of a reservation, as the text for the row of its decision.
pub(super) fn encode<'c>(charges: &'c [Charged]) -> Result<String, StoreError> {
    let columns = |charged: &'c Charged| -> Columns<&'c str> {
        let [server, scope, owner, name] = charged.slot.key.parts();
        let start = charged.slot.window_start.as_millis();
        (server, scope, owner, name, start, charged.amount.to_string())
    };
    let columns: Vec<_> = charges.iter().map(columns).collect();
    serde_json::to_string(&columns).map_err(|error| StoreError::Failed(error.to_string()))
}

fn decode(text: &str) -> Result<Vec<Charged>, StoreError> {
    let unreadable = |error: String| {
        StoreError::Failed(format!("the charges of a call are unreadable: {error}"))
    };
    let columns: Vec<Columns<String>> =
        serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    let charged = |(server, scope, owner, name, start, amount): Columns<String>| {
        let key = CounterKey::from_parts([&server, &scope, &owner, &name]);
        let slot = Slot { key, window_start: Timestamp::from_millis(start) };
        let amount = Amount::exactly(Decimal::read(&amount))
            .map_err(|error| unreadable(error.to_string()))?;
        // The counter's row says when the window ends.
        Ok(Charged { slot, window_end: 0, amount })
    };
    columns.into_iter().map(charged).collect()
}
