//! The in-memory back-end, for tests and for gateways without persistence. It behaves
//! like the other back-ends, and its data is lost when the process ends.

mod leases;
mod log;
mod people;
mod registry;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sluice_policy::{Amount, Timestamp};

use crate::{
    Health, StoreError,
    actor::Actor,
    approval::{Approval, Decided, Held, MOST_OVER, Pending, Vote, check_held},
    changes::Announcer,
    clock::Clock,
    counter::{Charge, Charged, Lease, Slot},
    id::{self, Id},
    ledger::{OpenReservations, Reservation, Reserved},
    log_space::Retention,
    name::Name,
    record::{GrantRef, Kind, Record},
    trusted_time::{self, TrustedTime},
};

use leases::LeaseCounts;
use log::Records;
use people::People;
use registry::Registered;

/// The number of windows up to which none is dropped.
const FEW_WINDOWS: usize = 4_096;
/// Windows that ended this long ago may be dropped, in milliseconds.
const FORGET_AFTER: i64 = 3_600_000;

/// Everything is under one lock, so that a change and its record are atomic.
pub(crate) struct Memory {
    clock: Clock,
    announcer: Arc<Announcer>,
    state: Mutex<State>,
}

struct State {
    time: TrustedTime,
    counters: HashMap<Slot, Reading>,
    /// The number of windows above which ended ones are dropped.
    most_windows: usize,
    leases: LeaseCounts,
    open: OpenReservations,
    approvals: BTreeMap<String, Held>,
    records: Records,
    registered: Registered,
    people: People,
    is_closed: bool,
}

impl State {
    /// Lets the held calls of a server expire; returns how many.
    fn end_held_calls(&mut self, server: &Name, now: Timestamp) -> usize {
        let open = self
            .approvals
            .values_mut()
            .filter(|held| held.approval.server == server.as_str() && held.is_open(now));
        open.map(|held| held.approval.expires_at = now).count()
    }
}

/// The sum of one window, and when the window ends in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Reading {
    used: Amount,
    end: i64,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl State {
    /// Makes all charges if there is a place for each lease, or none; the error holds what
    /// each counter reads, and the calls in progress.
    fn charge(
        &mut self,
        charges: &[Charge],
        leases: &[Lease],
        now: Timestamp,
    ) -> Result<Vec<Charged>, Reserved> {
        self.forget_ended(now);
        let made: Vec<_> = charges.iter().map(|charge| charge.at(now)).collect();
        if !self.leases.fit(leases) {
            return Err(self.refuse(&made, leases));
        }
        for (index, (charge, charged)) in charges.iter().zip(&made).enumerate() {
            let reading = self.reading(charged);
            if let Some(sum) = charge.fits(reading.used) {
                reading.used = sum;
                continue;
            }
            self.give_back(made.get(..index).unwrap_or_default());
            return Err(self.refuse(&made, leases));
        }
        Ok(made)
    }

    fn refuse(&mut self, charges: &[Charged], leases: &[Lease]) -> Reserved {
        let readings = charges.iter().map(|charged| self.reading(charged).used).collect();
        Reserved::Refused { readings, in_progress: self.leases.count(leases) }
    }

    fn reading(&mut self, charged: &Charged) -> &mut Reading {
        let end = charged.window_end;
        let reading = self
            .counters
            .entry(charged.slot.clone())
            .or_insert(Reading { used: Amount::ZERO, end });
        reading.end = reading.end.max(end);
        reading
    }

    fn give_back(&mut self, charges: &[Charged]) {
        for charged in charges {
            let reading = self.reading(charged);
            reading.used = reading.used.checked_sub(charged.amount).unwrap_or_default();
        }
    }

    /// Drops windows that ended long ago, once there are many.
    fn forget_ended(&mut self, now: Timestamp) {
        if self.counters.len() < self.most_windows.max(FEW_WINDOWS) {
            return;
        }
        let oldest = now.as_millis().saturating_sub(FORGET_AFTER);
        self.counters.retain(|_, reading| reading.end >= oldest);
        self.most_windows = 2 * self.counters.len();
    }

    /// Checks that one more call of this grant can be held, and removes the oldest of its held
    /// calls that are over.
    fn make_room(&mut self, grant: &GrantRef, now: Timestamp) -> Result<(), StoreError> {
        let is_own = |held: &Held| held.approval.grant.id == grant.id;
        let open = self.approvals.values().filter(|held| held.is_open(now));
        let own = open.clone().filter(|held| is_own(held)).count();
        check_held(own, open.count())?;
        let over = |held: &&Held| is_own(held) && held.is_over();
        let mut over: Vec<_> = self.approvals.values().filter(over).collect();
        over.sort_by_key(|held| held.approval.requested_at);
        let excess = over.len().saturating_sub(MOST_OVER - 1);
        let oldest: Vec<_> = over.iter().take(excess).map(|held| held.id.clone()).collect();
        for id in oldest {
            self.approvals.remove(&id);
        }
        Ok(())
    }

    fn append(&mut self, record: Record) {
        if let (Kind::Outcome, Some(request)) = (record.kind, record.request) {
            self.open.remove(request);
        }
        self.records.append(record);
    }
}

impl Memory {
    pub(crate) fn new(clock: Clock, retention: Retention, announcer: Arc<Announcer>) -> Memory {
        let state = State {
            time: TrustedTime::begin(clock.look()),
            counters: HashMap::new(),
            most_windows: 0,
            leases: LeaseCounts::default(),
            open: OpenReservations::default(),
            approvals: BTreeMap::new(),
            records: Records::new(retention.max_size),
            registered: Registered::default(),
            people: People::default(),
            is_closed: false,
        };
        Memory { clock, announcer, state: Mutex::new(state) }
    }

    pub(crate) fn reserve(&self, reservation: Reservation) -> Result<Reserved, StoreError> {
        let Reservation { id, charges, leases, record } = reservation;
        let mut state = self.open()?;
        if let Some(made) = state.open.find_reserved(id) {
            return Ok(made);
        }
        state.records.used.check(&record)?;
        let now = self.look_at_clock(&mut state);
        let charged = match state.charge(&charges, &leases, now) {
            Ok(charged) => charged,
            Err(refused) => return Ok(refused),
        };
        state.leases.take(id, leases);
        state.append(*record);
        let made = Reserved::from_charges(&charged);
        state.open.insert(id, charged);
        Ok(made)
    }

    pub(crate) fn release(&self, id: Id, record: Record) -> Result<bool, StoreError> {
        let mut state = self.open()?;
        let charged = state.open.get(id).map(<[Charged]>::to_vec);
        if let Some(charged) = &charged {
            state.give_back(charged);
            state.open.remove(id);
        }
        state.append(record);
        Ok(charged.is_some())
    }

    pub(crate) fn give_back(&self, id: Id) {
        self.lock().leases.give_back(id);
    }

    pub(crate) fn append(&self, record: Record) -> Result<(), StoreError> {
        let mut state = self.open()?;
        state.records.used.check(&record)?;
        state.append(record);
        Ok(())
    }

    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        self.open().map(|_| ())
    }

    pub(crate) fn hold(
        &self,
        approval: Approval,
        mut record: Record,
    ) -> Result<Pending, StoreError> {
        let (mut state, now) = (self.open()?, self.clock.now());
        state.records.used.check(&record)?;
        let waiting = state
            .approvals
            .values()
            .filter(|held| held.can_be_joined(&approval.digest, now))
            .max_by_key(|held| held.approval.expires_at);
        let pending = if let Some(held) = waiting {
            held.pending(true)
        } else {
            state.make_room(&approval.grant, now)?;
            let held = Held::new(approval);
            let pending = held.pending(false);
            state.approvals.insert(held.id.clone(), held);
            pending
        };
        record.approval = Some(pending.id.as_str().into());
        state.append(record);
        Ok(pending)
    }

    pub(crate) fn decide(&self, id: &str, vote: &Vote) -> Result<Option<Decided>, StoreError> {
        let (mut state, now) = (self.open()?, self.clock.now());
        let Some(held) = state.approvals.get_mut(id) else { return Ok(None) };
        let decided = held.decide(vote, now);
        if !matches!(decided, Decided::TooLate(_) | Decided::Repeated) {
            let record = held.vote_record(vote, decided, now);
            state.append(record);
        }
        Ok(Some(decided))
    }

    pub(crate) fn consume(&self, id: &str, mut record: Record) -> Result<bool, StoreError> {
        let (mut state, now) = (self.open()?, self.clock.now());
        let is_consumed = state.approvals.get_mut(id).is_some_and(|held| held.consume(now));
        if is_consumed {
            record.approval = Some(id.into());
            state.append(record);
        }
        Ok(is_consumed)
    }

    pub(crate) fn expire(&self) -> Result<u64, StoreError> {
        let (mut state, now) = (self.open()?, self.clock.now());
        let over = state
            .approvals
            .values_mut()
            .filter_map(|held| held.expire(now).then(|| held.expiry_record(now)));
        let records: Vec<_> = over.collect();
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        for record in records {
            state.append(record);
        }
        Ok(count)
    }

    pub(crate) fn pending_approvals(&self) -> Vec<Held> {
        let now = self.clock.now();
        let state = self.lock();
        let waits = |held: &&Held| held.can_be_joined(&held.approval.digest, now);
        let mut waiting: Vec<_> = state.approvals.values().filter(waits).cloned().collect();
        waiting.sort_by(|one, other| {
            (one.approval.requested_at, &one.id).cmp(&(other.approval.requested_at, &other.id))
        });
        waiting
    }

    pub(crate) fn approval(&self, id: &str) -> Option<Held> {
        self.lock().approvals.get(id).cloned()
    }

    /// Finds out what time it is, and records what has become of the system clock.
    fn look_at_clock(&self, state: &mut State) -> Timestamp {
        if let Some(event) = state.time.advance(self.clock.look()) {
            tracing::warn!("{event}");
            self.note_clock(state, event.to_string(), Actor::gateway());
        }
        Timestamp::from_millis(state.time.now())
    }

    fn note_clock(&self, state: &mut State, message: String, actor: Actor) {
        let now = self.clock.now();
        let record = Record::new(id::new_id(now), now, Kind::Admin);
        state.append(Record { message: Some(message), actor: Some(actor), ..record });
    }

    pub(crate) fn trust_clock(&self, actor: Actor) -> Result<Option<i64>, StoreError> {
        let mut state = self.open()?;
        self.look_at_clock(&mut state);
        let ahead = state.time.distrust();
        if let Some(ahead) = ahead {
            state.time.confirm();
            let was = trusted_time::describe_clock(ahead);
            let message = format!("the system clock was confirmed; it was {was}");
            self.note_clock(&mut state, message, actor);
        }
        Ok(ahead)
    }

    pub(crate) fn health(&self) -> Health {
        let mut state = self.lock();
        self.look_at_clock(&mut state);
        let last_error = state.is_closed.then(|| StoreError::Stopped.to_string());
        let log = state.records.used.space();
        Health {
            ok: last_error.is_none(),
            last_error,
            log,
            clock_ahead: state.time.distrust(),
            ..Health::well()
        }
    }

    pub(crate) fn close(&self) -> Result<(), StoreError> {
        self.open()?.is_closed = true;
        Ok(())
    }

    /// The state, unless the store was closed.
    fn open(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        if state.is_closed { Err(StoreError::Stopped) } else { Ok(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The lock is never held across code that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
