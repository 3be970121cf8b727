//! The steps of a write transaction: charges, records, dictionary rows and block
//! summaries.

mod clock;
mod follow;
mod log_use;

use std::{mem, path::Path, sync::Arc, time::Duration};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    Keys,
    blocks::{self, Drafts},
    counters::{self, Counters},
    group_commit::Write,
    leases::{self, LeaseHolder},
    past_reservations,
    records::{Facets, Link, Prepared},
    space,
    sums::RunningSums,
    time::Resumed,
    wal_size::WalSize,
};
use crate::{
    Durability, StoreError,
    chain::{self, ChainEnd},
    clock::Clock,
    counter::{Charge, Charged, Lease},
    head::{Extent, HeadFile, Incarnation},
    id::{self, Id, Mark},
    ledger::{OpenReservations, Reserved},
    log_space::{LogUse, Retention},
    record::{Kind, Record},
};

/// Windows that ended this long ago are deleted, in milliseconds. They are kept for a
/// while because a slow call may still be released.
const FORGET_AFTER: i64 = 3_600_000;

/// The write connection, and its cached state between transactions.
pub(super) struct Writer {
    connection: Connection,
    wal_size: WalSize,
    clock: Clock,
    keys: Arc<Keys>,
    /// The name of this writer in its records.
    name: Arc<str>,
    log: LogEnd,
    head: HeadFile,
    incarnation: Incarnation,
    sums: RunningSums,
    /// The last committed state.
    committed: Extent,
    /// The state that the head is known to hold alone.
    confirmed: Option<Extent>,
    facets: Facets,
    drafts: Drafts,
    counters: Counters,
    leases: LeaseHolder,
    open: OpenReservations,
    /// Changes to the open reservations that apply if the transaction is committed.
    staged: Vec<Staged>,
    /// The registry's epoch, if the transaction has changed it.
    epoch: Option<u64>,
    /// Called with the registry's new epoch.
    announce: Box<dyn Fn(u64) + Send>,
    time: Resumed,
    /// When the time was last stored, as time passes.
    time_stored: i64,
    /// Reservations with ids older than this may be known only from the log.
    opened: Mark,
    /// When ended windows were last deleted.
    forgotten: i64,
    /// SQLite's `data_version`, which changes when another connection has written.
    version: Option<i64>,
    /// SQLite's `schema_version` when the schema was last compared.
    schema: Option<i64>,
    /// Commits sync although the durability does not ask for it.
    is_synced: bool,
    /// The last record that is known to be pruned.
    pruned: i64,
    /// The committed end of the log, to return to after a rollback.
    before: LogEnd,
    retention: Retention,
    durability: Durability,
    used: LogUse,
    /// The block up to which the log's use is counted, and when it was counted as a whole;
    /// `None` if it must be counted anew.
    counted: Option<(i64, i64)>,
}

/// The end of the log.
#[derive(Debug, Clone, Copy)]
struct LogEnd {
    end: ChainEnd,
    /// The number of this writer, once it has a record.
    writer: Option<i64>,
}

/// The opened files of a store.
pub(super) struct Files {
    pub(super) connection: Connection,
    pub(super) head: HeadFile,
    pub(super) incarnation: Incarnation,
    pub(super) sums: RunningSums,
    /// The state that the database is in.
    pub(super) extent: Extent,
    pub(super) time: Resumed,
}

enum Staged {
    Made(Id, Vec<Charged>),
    Settled(Id),
}

impl Writer {
    pub(super) fn new(files: Files, data: &Path, keys: Arc<Keys>, clock: Clock) -> Writer {
        let Files { connection, head, incarnation, sums, extent, time } = files;
        let log = LogEnd { end: extent.end, writer: None };
        let name = chain::new_writer();
        Writer {
            wal_size: WalSize::new(&connection),
            connection,
            clock,
            keys,
            leases: LeaseHolder::new(data, Arc::clone(&name)),
            name,
            before: log,
            log,
            head,
            incarnation,
            sums,
            committed: extent,
            confirmed: None,
            facets: Facets::default(),
            drafts: Drafts::default(),
            counters: Counters::default(),
            open: OpenReservations::default(),
            staged: Vec::new(),
            epoch: None,
            announce: Box::new(|_| {}),
            time,
            time_stored: i64::MIN,
            opened: Mark::now(),
            forgotten: i64::MIN,
            version: None,
            schema: None,
            is_synced: false,
            pruned: 0,
            retention: Retention::default(),
            durability: Durability::Process,
            used: LogUse::new(Retention::default().max_size),
            counted: None,
        }
    }

    /// Calls `announce` with the registry's new epoch after each change.
    pub(super) fn announce_with(&mut self, announce: impl Fn(u64) + Send + 'static) {
        self.announce = Box::new(announce);
    }

    /// Whether the next commits sync, in a database whose commits otherwise do not.
    pub(super) fn sync_commits(&mut self, is_synced: bool) -> rusqlite::Result<()> {
        if self.is_synced != is_synced {
            let level = if is_synced { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.is_synced = is_synced;
        }
        Ok(())
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What a commit survives.
    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Begins a transaction, waiting up to `patience` for other processes. It fails if another
    /// program has changed what was written.
    pub(super) fn begin(&mut self, patience: Duration) -> Result<(), StoreError> {
        self.wal_size.check()?;
        self.connection.busy_timeout(patience)?;
        self.execute("BEGIN IMMEDIATE")?;
        let looked = self.look_at_clock().map_err(StoreError::from);
        let caught_up = looked.and_then(|()| self.catch_up());
        let caught_up = caught_up.and_then(|()| Ok(self.count_use()?));
        if caught_up.is_err() {
            self.roll_back();
        } else {
            self.before = self.log;
        }
        caught_up
    }

    /// Notes that the log was pruned. Cached facets, and the number of this writer, may be
    /// gone.
    fn note_pruned(&mut self, through: i64) {
        if mem::replace(&mut self.pruned, through) != through {
            self.facets.forget();
            self.drafts.forget();
            self.log.writer = None;
            self.counted = None;
        }
    }

    /// Notes the last record that is about to be pruned.
    pub(super) fn leave_behind(&mut self, last: ChainEnd) -> rusqlite::Result<()> {
        let ChainEnd { seq, hash } = last;
        let set = |name: &str, value: &dyn rusqlite::ToSql| {
            let sql = "UPDATE meta SET value = ?2 WHERE name = ?1";
            self.connection.prepare_cached(sql)?.execute(rusqlite::params![name, value])
        };
        set("pruned", &seq)?;
        set("pruned_hash", &hash)?;
        self.note_pruned(seq);
        Ok(())
    }

    /// Makes the charges of a write and appends its record; neither if the charges do not
    /// fit.
    pub(super) fn write(
        &mut self,
        write: Write,
    ) -> (oneshot::Sender<Result<Reserved, StoreError>>, Result<Reserved, StoreError>) {
        let Write { id, charges, leases, mut record, reply } = write;
        let found = match id {
            Some(id) => self.reserve(id, &charges, &leases, &mut record),
            None => self
                .check_space(&record.record)
                .and_then(|()| self.append(&mut record, None))
                .map(|_| Reserved::Made { windows: Vec::new() }),
        };
        (reply, found)
    }

    fn reserve(
        &mut self,
        id: Id,
        charges: &[Charge],
        leases: &[Lease],
        record: &mut Prepared,
    ) -> Result<Reserved, StoreError> {
        if let Some(made) = self.find_reserved(id)? {
            return Ok(made);
        }
        self.check_space(&record.record)?;
        let now = self.now();
        let in_progress = self.leases.count(&self.connection, leases)?;
        if in_progress.iter().zip(leases).any(|(count, lease)| *count >= lease.max) {
            let readings = self.counters.readings(&self.connection, charges, now)?;
            return Ok(Reserved::Refused { readings, in_progress });
        }
        let made = match self.counters.charge(&self.connection, charges, now)? {
            Ok(made) => made,
            Err(readings) => return Ok(Reserved::Refused { readings, in_progress }),
        };
        self.leases.take(&self.connection, id, leases)?;
        self.append(record, Some(&past_reservations::encode(&made)?))?;
        let answer = Reserved::from_charges(&made);
        self.staged.push(Staged::Made(id, made));
        Ok(answer)
    }

    /// The result of a reservation that was made before.
    fn find_reserved(&self, id: Id) -> Result<Option<Reserved>, StoreError> {
        let in_transaction = self.staged.iter().find_map(|staged| match staged {
            Staged::Made(made, charges) if *made == id => Some(Reserved::from_charges(charges)),
            _ => None,
        });
        let remembered = in_transaction.or_else(|| self.open.find_reserved(id));
        if remembered.is_some() || self.opened.is_before(id) {
            return Ok(remembered);
        }
        let logged = past_reservations::find_open(&self.connection, id)?;
        Ok(logged.map(|charges| Reserved::from_charges(&charges)))
    }

    /// Releases the charges of a reservation and appends its record; returns whether the
    /// reservation was open.
    pub(super) fn release(&mut self, id: Id, record: Record) -> Result<bool, StoreError> {
        let charged = self.find_open(id)?;
        if let Some(charged) = &charged {
            self.counters.give_back(&self.connection, charged)?;
            self.staged.push(Staged::Settled(id));
        }
        self.append_record(record)?;
        Ok(charged.is_some())
    }

    /// The charges of a reservation, if they can be released.
    fn find_open(&self, id: Id) -> Result<Option<Vec<Charged>>, StoreError> {
        let is_settled =
            |staged: &Staged| matches!(staged, Staged::Settled(settled) if *settled == id);
        if self.staged.iter().any(is_settled) {
            return Ok(None);
        }
        if let Some(charged) = self.open.get(id) {
            return Ok(Some(charged.to_vec()));
        }
        past_reservations::find_open(&self.connection, id)
    }

    /// Gives back the leases of requests.
    pub(super) fn give_back(&self, requests: &[Id]) -> Result<(), StoreError> {
        Ok(leases::free(&self.connection, requests)?)
    }

    /// Frees the leases of processes that have ended.
    pub(super) fn free_ended_leases(&self) -> Result<(), StoreError> {
        Ok(self.leases.free_all_ended(&self.connection)?)
    }

    /// Appends a record to the log, with the charges of its reservation.
    fn append(&mut self, record: &mut Prepared, charges: Option<&str>) -> Result<i64, StoreError> {
        let facet = self.facets.number(&self.connection, record)?;
        let number = self.find_number()?;
        let link = Link { key: &self.keys.chain, writer: &self.name, number, before: self.log.end };
        self.log.end = record.insert(&self.connection, &link, facet, charges)?;
        let bytes = space::bytes_of(&record.record, charges);
        self.drafts.add(self.log.end.seq, &record.record, [facet, number], bytes);
        self.used.add(&record.record, record.length() + charges.map_or(0, str::len));
        if record.record.kind == Kind::Outcome {
            self.staged.extend(record.record.request.map(Staged::Settled));
        }
        Ok(self.log.end.seq)
    }

    /// Appends a deferred record.
    pub(super) fn append_deferred(&mut self, record: &mut Prepared) -> Result<(), StoreError> {
        // Nobody waits for it, so it is dropped and counted.
        if self.check_space(&record.record).is_err() {
            return Ok(());
        }
        self.append(record, None).map(|_| ())
    }

    /// Appends a record that is made within the transaction.
    pub(super) fn append_record(&mut self, record: Record) -> Result<i64, StoreError> {
        self.append(&mut Prepared::new(Box::new(record)), None)
    }

    /// The number of this writer.
    fn find_number(&mut self) -> rusqlite::Result<i64> {
        if let Some(number) = self.log.writer {
            return Ok(number);
        }
        let sql = "INSERT INTO chains (writer) VALUES (?1)
            ON CONFLICT DO UPDATE SET writer = excluded.writer RETURNING id";
        let find = |row: &rusqlite::Row<'_>| row.get(0);
        let number = self.connection.prepare_cached(sql)?.query_row([&*self.name], find)?;
        self.log.writer = Some(number);
        Ok(number)
    }

    /// Increments the registry's epoch, and appends the record of the change.
    pub(super) fn change_registry(&mut self, record: Record) -> Result<(), StoreError> {
        let sql = "UPDATE meta SET value = value + 1 WHERE name = 'epoch' RETURNING value";
        let epoch: i64 = self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        self.epoch = Some(epoch.unsigned_abs());
        self.append_record(record).map(|_| ())
    }

    /// Writes counters, summaries and the head, and commits.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        self.note_time()?;
        self.counters.write(&self.connection)?;
        let (newest, before) = (self.log.end.seq, self.before.end.seq);
        if blocks::block_of(newest + 1) > blocks::block_of(before + 1) {
            blocks::summarise(&self.connection, newest, &mut self.drafts)?;
        }
        let now = self.now().as_millis();
        if self.distrust().is_none() && now.saturating_sub(self.forgotten) > FORGET_AFTER {
            let before = now.saturating_sub(FORGET_AFTER).saturating_sub(self.time.believed);
            counters::drop_ended(&self.connection, before)?;
            self.counters.forget();
            self.forgotten = now;
        }
        let after = Extent { end: self.log.end, sums: self.sums.get() };
        if after != self.committed {
            self.write_head(self.committed, after)?;
            self.confirmed = None;
        }
        self.execute("COMMIT")?;
        (self.before, self.committed) = (self.log, after);
        if let Some(event) = self.time.event.take() {
            tracing::warn!("{event}");
        }
        for staged in self.staged.drain(..) {
            match staged {
                Staged::Made(id, charges) => self.open.insert(id, charges),
                Staged::Settled(id) => self.open.remove(id),
            }
        }
        if let Some(epoch) = self.epoch.take() {
            (self.announce)(epoch);
        }
        Ok(())
    }

    /// Rolls back: nothing of the transaction is on disk, and its cached state is
    /// discarded.
    pub(super) fn roll_back(&mut self) {
        let _ = self.connection.execute_batch("ROLLBACK");
        self.log = self.before;
        self.sums.set(self.committed.sums);
        self.facets.forget();
        self.drafts.forget();
        self.counters.forget();
        self.staged.clear();
        (self.epoch, self.version, self.counted) = (None, None, None);
        self.time_stored = i64::MIN;
        self.forgotten = i64::MIN;
    }

    /// Checks, within a transaction, that a record can be written.
    pub(super) fn probe(&mut self) -> Result<(), StoreError> {
        let (before, sums) = (self.log, self.sums.get());
        self.execute("SAVEPOINT probe")?;
        let now = self.clock.now();
        self.append_record(Record::new(id::new_id(now), now, Kind::Admin))?;
        self.connection.execute_batch("ROLLBACK TO probe; RELEASE probe")?;
        self.log = before;
        self.sums.set(sums);
        self.facets.forget();
        self.drafts.forget();
        Ok(self.touch()?)
    }

    /// Does a small write.
    pub(super) fn touch(&self) -> rusqlite::Result<()> {
        let sql = "REPLACE INTO meta (name, value) VALUES ('probe', randomblob(8))";
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }
}
