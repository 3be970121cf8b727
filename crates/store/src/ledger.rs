//! The ledger: charges and decisions, exact and on the path of every call.
//!
//! A call may leave only when its charges are reserved and its decision is
//! recorded. A back-end may keep counters and records apart as long as no
//! reservation succeeds without both.

use std::{collections::BTreeMap, sync::Arc};

use sluice_policy::{Amount, Timestamp};

use crate::{
    StoreError,
    approval::{Approval, Decided, Held, Pending, Vote},
    counter::{Charge, Charged},
    id::Id,
    memory::Memory,
    record::Record,
    sqlite::Sqlite,
    store::Store,
};

/// Reservations in flight that are remembered. Past that the oldest is forgotten.
const MOST_OPEN: usize = 65_536;

/// Where charges, decisions and held calls are kept.
#[derive(Debug, Clone)]
pub(crate) enum Ledger {
    Memory(Arc<Memory>),
    Sqlite(Arc<Sqlite>),
}

/// What one call needs before it may leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The id of the request. A second reservation of the same id changes
    /// nothing and gets the first one's answer, until an outcome record of this
    /// request is written; also after a restart, for a day.
    pub id: Id,
    /// Made all or none.
    pub charges: Vec<Charge>,
    /// The decision. The store enters the request.
    pub record: Record,
}

/// How a reservation came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// All charges were made, and the record is stored. The start of the window
    /// each was made to, in the order of the charges.
    Made { windows: Vec<Timestamp> },
    /// At least one did not fit; none was made, and nothing was recorded. What
    /// each counter reads, in the order of the charges.
    Refused { readings: Vec<Amount> },
}

impl Reserved {
    /// The answer to a reservation whose charges were made.
    pub(crate) fn from_charges(charges: &[Charged]) -> Reserved {
        let windows = charges.iter().map(|charge| charge.slot.window_start).collect();
        Reserved::Made { windows }
    }
}

impl Store {
    /// Makes all charges and stores the record, or does neither. When this
    /// returns [`Reserved::Made`], both survive the end of the process.
    pub async fn reserve(&self, mut reservation: Reservation) -> Result<Reserved, StoreError> {
        reservation.record.request = Some(reservation.id);
        match &self.ledger {
            Ledger::Memory(memory) => memory.reserve(reservation),
            Ledger::Sqlite(sqlite) => sqlite.reserve(reservation).await,
        }
    }

    /// Gives back what a reservation charged, to the windows it was charged to,
    /// and stores the record that says so, as one of that request. Only for calls of
    /// which nothing was sent. `false` if the reservation is not open: it was given
    /// back or has an outcome, or it was never made. Then only the record is stored.
    pub async fn release(&self, id: Id, mut record: Record) -> Result<bool, StoreError> {
        record.request = Some(id);
        match &self.ledger {
            Ledger::Memory(memory) => memory.release(id, record),
            Ledger::Sqlite(sqlite) => sqlite.release(id, record).await,
        }
    }

    /// Stores a record; when this returns, it survives the end of the process.
    pub async fn append(&self, record: Record) -> Result<(), StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.append(record),
            Ledger::Sqlite(sqlite) => sqlite.append(record).await,
        }
    }

    /// Stores a record soon, with the next commit or within a few hundredths of a
    /// second. For outcomes, which nobody waits for: such a record is lost if the
    /// process is killed before, and dropped if very many wait already.
    pub fn append_deferred(&self, record: Record) {
        match &self.ledger {
            Ledger::Memory(memory) => drop(memory.append(record)),
            Ledger::Sqlite(sqlite) => sqlite.append_deferred(record),
        }
    }

    /// Waits until every deferred record is stored.
    pub async fn flush(&self) -> Result<(), StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.check_open(),
            Ledger::Sqlite(sqlite) => sqlite.flush().await,
        }
    }

    /// Keeps a held call for people to decide on. The same call joins the one that
    /// waits, for as long as that has not expired. The stored record carries the
    /// approval's id.
    pub async fn hold(&self, approval: Approval, record: Record) -> Result<Pending, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.hold(approval, record),
            Ledger::Sqlite(sqlite) => sqlite.hold(approval, record).await,
        }
    }

    /// Counts one person's vote on a held call, if that still waits for one, and
    /// records it. `None` if there is no such held call.
    pub async fn decide(&self, id: &str, vote: Vote) -> Result<Option<Decided>, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.decide(id, &vote),
            Ledger::Sqlite(sqlite) => sqlite.decide(id, vote).await,
        }
    }

    /// Uses up an approval that was given; whether it could be used. Only one
    /// caller ever gets `true`, and only then the record is stored, with the
    /// approval's id.
    pub async fn consume(&self, id: &str, record: Record) -> Result<bool, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.consume(id, record),
            Ledger::Sqlite(sqlite) => sqlite.consume(id, record).await,
        }
    }

    /// Ends every held call whose time is over and records each; how many.
    pub async fn expire(&self) -> Result<u64, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.expire(),
            Ledger::Sqlite(sqlite) => sqlite.expire().await,
        }
    }

    /// The calls that wait now, the oldest first.
    pub async fn pending_approvals(&self) -> Result<Vec<Held>, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => Ok(memory.pending_approvals()),
            Ledger::Sqlite(sqlite) => sqlite.pending_approvals().await,
        }
    }

    /// One held call, whatever its state.
    pub async fn approval(&self, id: &str) -> Result<Option<Held>, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => Ok(memory.approval(id)),
            Ledger::Sqlite(sqlite) => sqlite.approval(id).await,
        }
    }
}

/// Reservations that were made and whose outcome is not recorded yet.
#[derive(Debug, Default)]
pub(crate) struct OpenReservations(BTreeMap<Id, Vec<Charged>>);

impl OpenReservations {
    /// The windows of a reservation that was made already.
    pub(crate) fn find_reserved(&self, id: Id) -> Option<Reserved> {
        self.0.get(&id).map(|charges| Reserved::from_charges(charges))
    }

    pub(crate) fn insert(&mut self, id: Id, charges: Vec<Charged>) {
        if self.0.len() >= MOST_OPEN {
            self.0.pop_first();
        }
        self.0.insert(id, charges);
    }

    pub(crate) fn get(&self, id: Id) -> Option<&[Charged]> {
        self.0.get(&id).map(Vec::as_slice)
    }

    pub(crate) fn remove(&mut self, id: Id) {
        self.0.remove(&id);
    }
}
