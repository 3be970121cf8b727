//! The steps of a write transaction: charges, records, dictionary rows and block
//! summaries.

use std::{mem, time::Duration};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    blocks,
    counters::{self, Counters},
    group_commit::Write,
    past_reservations,
    records::{self, Facets, Prepared},
    steady::Steady,
};
use crate::{
    StoreError,
    chain::Chain,
    clock::Clock,
    counter::{Charge, Charged},
    id::{self, Id, Mark},
    ledger::{OpenReservations, Reserved},
    record::{Kind, Record},
};

/// Windows that ended this long ago are deleted, in milliseconds. They are kept for a
/// while because a slow call may still be released.
const FORGET_AFTER: i64 = 3_600_000;

/// The write connection, and its cached state between transactions.
pub(super) struct Writer {
    connection: Connection,
    clock: Clock,
    log: LogEnd,
    facets: Facets,
    counters: Counters,
    open: OpenReservations,
    /// Changes to the open reservations that apply if the transaction is committed.
    staged: Vec<Staged>,
    /// The registry's epoch, if the transaction has changed it.
    epoch: Option<u64>,
    /// Called with the registry's new epoch.
    announce: Box<dyn Fn(u64) + Send>,
    steady: Steady,
    /// Reservations with ids older than this may be known only from the log.
    opened: Mark,
    /// When ended windows were last deleted.
    forgotten: i64,
    /// SQLite's `data_version`, which changes when another connection has written.
    version: Option<i64>,
    /// The last record that is known to be pruned.
    pruned: i64,
    /// The committed end of the log, to return to after a rollback.
    before: LogEnd,
}

/// The end of the log.
#[derive(Clone)]
struct LogEnd {
    chain: Chain,
    /// The chain's number, once it has a record.
    chain_number: Option<i64>,
    /// The last record of the chain, or zero.
    chained: i64,
    /// The newest record of all.
    newest: i64,
}

enum Staged {
    Made(Id, Vec<Charged>),
    Settled(Id),
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        clock: Clock,
        announce: impl Fn(u64) + Send + 'static,
    ) -> Writer {
        let log = LogEnd { chain: Chain::begin(), chain_number: None, chained: 0, newest: 0 };
        Writer {
            connection,
            clock,
            before: log.clone(),
            log,
            facets: Facets::default(),
            counters: Counters::default(),
            open: OpenReservations::default(),
            staged: Vec::new(),
            epoch: None,
            announce: Box::new(announce),
            steady: Steady::default(),
            opened: Mark::now(),
            forgotten: i64::MIN,
            version: None,
            pruned: 0,
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Begins a transaction, waiting up to `patience` for other processes.
    pub(super) fn begin(&mut self, patience: Duration) -> rusqlite::Result<()> {
        self.connection.busy_timeout(patience)?;
        self.execute("BEGIN IMMEDIATE")?;
        let caught_up = self.catch_up();
        if caught_up.is_err() {
            self.roll_back();
        } else {
            self.before = self.log.clone();
        }
        caught_up
    }

    /// Refreshes the cached state if another process has written.
    fn catch_up(&mut self) -> rusqlite::Result<()> {
        let sql = "PRAGMA data_version";
        let version = self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        if self.version.replace(version) == Some(version) {
            return Ok(());
        }
        self.counters.forget();
        self.log.newest = blocks::find_newest(&self.connection)?;
        let sql = "SELECT value FROM meta WHERE name = 'pruned'";
        let pruned = self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        self.note_pruned(pruned);
        Ok(())
    }

    /// Notes that the log was pruned. Cached facets may be gone. A chain of which every
    /// record was pruned is not continued: a new one begins, so that anchors need to list
    /// only chains that still have records.
    fn note_pruned(&mut self, through: i64) {
        if mem::replace(&mut self.pruned, through) != through {
            self.facets.forget();
        }
        if self.log.chained <= through && self.log.chained > 0 {
            (self.log.chain, self.log.chain_number, self.log.chained) = (Chain::begin(), None, 0);
        }
    }

    /// Makes sure that no chain continues from a record that is about to be pruned.
    pub(super) fn leave_behind(&mut self, through: i64) -> rusqlite::Result<()> {
        let sql = "UPDATE meta SET value = ?1 WHERE name = 'pruned'";
        self.connection.prepare_cached(sql)?.execute([through])?;
        self.note_pruned(through);
        Ok(())
    }

    /// Makes the charges of a write and appends its record; neither if the charges do not
    /// fit.
    pub(super) fn write(
        &mut self,
        write: Write,
    ) -> (oneshot::Sender<Result<Reserved, StoreError>>, Result<Reserved, StoreError>) {
        let Write { id, charges, mut record, reply } = write;
        let found = match id {
            Some(id) => self.reserve(id, &charges, &mut record),
            None => self.append(&mut record, None).map(|_| Reserved::Made { windows: Vec::new() }),
        };
        (reply, found)
    }

    fn reserve(
        &mut self,
        id: Id,
        charges: &[Charge],
        record: &mut Prepared,
    ) -> Result<Reserved, StoreError> {
        if let Some(made) = self.find_reserved(id)? {
            return Ok(made);
        }
        let now = self.clock.now();
        let made = match self.counters.charge(&self.connection, charges, now)? {
            Ok(made) => made,
            Err(refused) => return Ok(refused),
        };
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
        let logged = past_reservations::find(&self.connection, id)?;
        Ok(logged.map(|logged| Reserved::from_charges(&logged.charges)))
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
        let logged = past_reservations::find(&self.connection, id)?;
        Ok(logged.filter(|logged| !logged.is_settled).map(|logged| logged.charges))
    }

    /// Appends a record to the log, with the charges of its reservation.
    fn append(&mut self, record: &mut Prepared, charges: Option<&str>) -> Result<i64, StoreError> {
        let facet = self.facets.number(&self.connection, record)?;
        let chain = self.chain_number()?;
        let seq = record.insert(&self.connection, &mut self.log.chain, chain, facet, charges)?;
        (self.log.chained, self.log.newest) = (seq, seq);
        if record.record.kind == Kind::Outcome {
            self.staged.extend(record.record.request.map(Staged::Settled));
        }
        Ok(seq)
    }

    /// Appends a deferred record.
    pub(super) fn append_deferred(&mut self, record: &mut Prepared) -> Result<(), StoreError> {
        self.append(record, None).map(|_| ())
    }

    /// Appends a record that is made within the transaction.
    pub(super) fn append_record(&mut self, record: Record) -> Result<i64, StoreError> {
        self.append(&mut Prepared::new(record), None)
    }

    fn chain_number(&mut self) -> rusqlite::Result<i64> {
        if let Some(number) = self.log.chain_number {
            return Ok(number);
        }
        let sql = "INSERT INTO chains (writer) VALUES (?1)";
        let writer: &str = self.log.chain.writer();
        let number = self.connection.prepare_cached(sql)?.insert([writer])?;
        self.log.chain_number = Some(number);
        Ok(number)
    }

    /// Increments the registry's epoch, and appends the record of the change.
    pub(super) fn change_registry(&mut self, record: Record) -> Result<(), StoreError> {
        let sql = "UPDATE meta SET value = value + 1 WHERE name = 'epoch' RETURNING value";
        let epoch: i64 = self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        self.epoch = Some(epoch.unsigned_abs());
        self.append_record(record).map(|_| ())
    }

    /// Commits, and stores where the log ends. Commits that calls wait for skip this,
    /// because it writes one more page.
    pub(super) fn commit_with_end(&mut self) -> Result<(), StoreError> {
        self.note_end()?;
        self.commit()
    }

    fn note_end(&self) -> rusqlite::Result<()> {
        let LogEnd { chain, chained, newest, .. } = &self.log;
        // Another process may have written the newest record.
        if *chained > 0 && chained == newest {
            records::note_end(&self.connection, *newest, chain.last())?;
        }
        Ok(())
    }

    /// Writes counters and summaries, and commits.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        self.counters.write(&self.connection)?;
        if blocks::block_of(self.log.newest + 1) > blocks::block_of(self.before.newest + 1) {
            blocks::summarise(&self.connection, self.log.newest)?;
            self.note_end()?;
        }
        let now = self.steady.now(self.clock.now().as_millis());
        if now.saturating_sub(self.forgotten) > FORGET_AFTER {
            counters::drop_ended(&self.connection, now.saturating_sub(FORGET_AFTER))?;
            self.counters.forget();
            self.forgotten = now;
        }
        self.execute("COMMIT")?;
        self.before = self.log.clone();
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
        self.log = self.before.clone();
        self.facets.forget();
        self.counters.forget();
        self.staged.clear();
        (self.epoch, self.version) = (None, None);
        self.forgotten = i64::MIN;
    }

    /// Checks, within a transaction, that a record can be written.
    pub(super) fn probe(&mut self) -> Result<(), StoreError> {
        let before = self.log.clone();
        self.execute("SAVEPOINT probe")?;
        let now = self.clock.now();
        self.append_record(Record::new(id::new_id(now), now, Kind::Admin))?;
        self.connection.execute_batch("ROLLBACK TO probe; RELEASE probe")?;
        self.log = before;
        self.facets.forget();
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
