//! The ledger: charges and decisions, exact and on the path of every call.
//!
//! A call may be sent only when its charges are reserved and its decision is recorded: no
//! reservation succeeds without both. SQLite stores both in one transaction. A
//! back-end that keeps counters in another place than records makes the charges first, and
//! lets them expire if the record is never stored.

use std::{collections::BTreeMap, sync::Arc};

use sluice_policy::{Amount, Timestamp};

use crate::{
    StoreError,
    approval::{Approval, Decided, Held, Pending, Vote},
    counter::{Charge, Charged, Lease},
    id::Id,
    memory::Memory,
    record::Record,
    sqlite::Sqlite,
    store::Store,
};

/// Open reservations that are remembered. Above that, the oldest is forgotten.
const MOST_OPEN: usize = 65_536;

/// The back-end for charges, decisions and held calls.
#[derive(Debug, Clone)]
pub(crate) enum Ledger {
    Memory(Arc<Memory>),
    Sqlite(Arc<Sqlite>),
}

/// The charges and the record that one call needs before it may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The id of the request. A second reservation with the same id changes nothing and
    /// returns the first one's result, until an outcome record of this request is
    /// written; also after a restart, for a day.
    pub id: Id,
    /// All are made, or none.
    pub charges: Vec<Charge>,
    /// All are taken, together with the charges, or none. They last until they are given back
    /// ([`Store::give_back`]) or the process ends.
    pub leases: Vec<Lease>,
    /// The decision. The store fills in the request id. Boxed, because it is large and handed
    /// from one queue to the next.
    pub record: Box<Record>,
}

/// The result of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// All charges were made and the record is stored. `windows` holds the start of each
    /// charged window, in the order of the charges.
    Made { windows: Vec<Timestamp> },
    /// At least one charge or lease did not fit, so none was made and nothing was recorded.
    /// `readings` holds what each counter reads, in the order of the charges; `in_progress`
    /// how many calls there are for each lease.
    Refused { readings: Vec<Amount>, in_progress: Vec<u64> },
}

impl Reserved {
    /// The result of a reservation whose charges were made.
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
        let mut unanswered = Unanswered {
            store: self,
            leased: (!reservation.leases.is_empty()).then_some(reservation.id),
        };
        let reserved = match &self.ledger {
            Ledger::Memory(memory) => memory.reserve(reservation),
            Ledger::Sqlite(sqlite) => sqlite.reserve(reservation).await,
        };
        unanswered.leased = None;
        reserved
    }

    /// Gives the leases of a call back, whose outcome is known. Calls of this process see that
    /// at once, those of others with the next commit, which does not wait.
    pub fn give_back(&self, id: Id) {
        match &self.ledger {
            Ledger::Memory(memory) => memory.give_back(id),
            Ledger::Sqlite(sqlite) => sqlite.give_back(id),
        }
    }

    /// Returns the charges of a reservation to the windows they were made in, and stores
    /// the record as one of that request. Only for calls of which nothing was sent.
    /// `false` if the reservation is not open: it was released, has an outcome, or was
    /// never made. Then only the record is stored.
    pub async fn release(&self, id: Id, mut record: Record) -> Result<bool, StoreError> {
        record.request = Some(id);
        match &self.ledger {
            Ledger::Memory(memory) => memory.release(id, record),
            Ledger::Sqlite(sqlite) => sqlite.release(id, record).await,
        }
    }

    /// Stores a record; when this returns, it survives the end of the process.
    pub async fn append(&self, record: impl Into<Box<Record>>) -> Result<(), StoreError> {
        let record = record.into();
        match &self.ledger {
            Ledger::Memory(memory) => memory.append(*record),
            Ledger::Sqlite(sqlite) => sqlite.append(record).await,
        }
    }

    /// Stores a record soon: with the next commit, or within a few hundredths of a
    /// second. For outcomes, which no caller waits for: such a record is lost if the
    /// process is killed before, and dropped if too many are queued.
    pub fn append_deferred(&self, record: impl Into<Box<Record>>) {
        let record = record.into();
        match &self.ledger {
            Ledger::Memory(memory) => drop(memory.append(*record)),
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

    /// Stores a held call until people decide on it. The same call joins the pending one
    /// until that expires. The stored record carries the approval's id. Refused with
    /// [`StoreError::TooManyHeld`] if too many calls wait.
    pub async fn hold(&self, approval: Approval, record: Record) -> Result<Pending, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.hold(approval, record),
            Ledger::Sqlite(sqlite) => sqlite.hold(approval, record).await,
        }
    }

    /// Counts one person's vote on a held call if it is still pending, and records it.
    /// `None` if there is no such call.
    pub async fn decide(&self, id: &str, vote: Vote) -> Result<Option<Decided>, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.decide(id, &vote),
            Ledger::Sqlite(sqlite) => sqlite.decide(id, vote).await,
        }
    }

    /// Uses up an approval; returns whether it could be used. Only one caller ever gets
    /// `true`, and only then is the record stored, with the approval's id.
    pub async fn consume(&self, id: &str, record: Record) -> Result<bool, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.consume(id, record),
            Ledger::Sqlite(sqlite) => sqlite.consume(id, record).await,
        }
    }

    /// Expires every held call whose time is over and records each; returns how many.
    pub async fn expire(&self) -> Result<u64, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.expire(),
            Ledger::Sqlite(sqlite) => sqlite.expire().await,
        }
    }

    /// The pending calls, the oldest first.
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

/// A reservation that is being made. If its caller goes away, nobody would give its leases back.
struct Unanswered<'s> {
    store: &'s Store,
    leased: Option<Id>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.leased {
            self.store.give_back(id);
        }
    }
}

/// Reservations that were made and whose outcome is not recorded yet.
#[derive(Debug, Default)]
pub(crate) struct OpenReservations(BTreeMap<Id, Vec<Charged>>);

impl OpenReservations {
    /// The result of a reservation that was already made.
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
