//! Writing. Commands that have arrived together share one transaction, so that
//! many calls cost one commit.
//!
//! Whoever waits for a commit makes it, for all who wait on the same thread:
//! handing it to another thread and back would cost more than the commit itself. A
//! thread does what callers cannot or should not wait for: it syncs, waits for
//! other processes, writes what nobody waits for, and builds the index.

mod reserve;

use std::{io, mem, panic::AssertUnwindSafe, sync::Arc, thread, time::Duration};

use rusqlite::{Connection, params};
use sluice_policy::Timestamp;

use super::{
    StoreError,
    checkpoint::{self, Checkpoints},
    counters::Counters,
    forms, index, open,
    queue::{Command, CrewId, MOST_BLANKS, Queue, Turn},
    shared::{Offer, Shared},
    steady::Steady,
    view,
    work::Done,
};
use crate::{
    chain::Chain,
    id,
    record::{Line, Record},
    sheet::Sheet,
};

/// Windows that ended this long ago are forgotten, in milliseconds. Kept for a
/// while because a slow call may still be refunded.
const FORGET_AFTER: i64 = 3_600_000;
/// How long nothing must have come before the index is built on.
const QUIET: Duration = Duration::from_millis(20);
/// Blocks the index may be behind; past that it is built even in busy times.
const MOST_BEHIND: i64 = 1_024;
/// Records on the pile that callers do not wait for.
const MANY_PILED: usize = 1_000;
/// Transactions of callers, since the thread last looked, from which on they keep a
/// view open; and for how many it may stay open if the thread does not come to
/// close it.
const OFTEN: u32 = 3;
const LONGEST_VIEW: u32 = 1_024;
/// How often it is tried whether a failing store is well again.
const PROBE: Duration = Duration::from_secs(1);

/// Starts the thread; it ends when the queue is closed.
pub(super) fn start(
    connection: Connection,
    checkpoints: Checkpoints,
    queue: Arc<Queue>,
) -> io::Result<Arc<Shared<Writer>>> {
    let writer = Arc::new(Shared::new(Writer {
        checkpoints,
        connection,
        chain: new_chain(),
        chained: 0,
        counters: Counters::default(),
        forgotten: i64::MIN,
        steady: Steady::default(),
        newest: 0,
        next_block: None,
        is_failing: false,
        blanks: Vec::new(),
        made: Vec::new(),
        room: Default::default(),
        sheet: Sheet::default(),
        is_as_seen: false,
        made_by_callers: 0,
    }));
    let shared = Arc::clone(&writer);
    let run = move || {
        // A bug must not leave callers waiting: they are told the store has stopped.
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| run(&writer, &queue)));
        // Whoever closes the store waits for this.
        writer.close();
        queue.end();
        if ended.is_err() {
            tracing::error!("the store's thread has ended by a fault of its own");
        }
    };
    thread::Builder::new().name("store".into()).spawn(run).map(|_| shared)
}

/// The thread: writes what nobody else does, and looks after the rest.
fn run(shared: &Shared<Writer>, queue: &Queue) {
    let (mut commands, mut pile) = (Vec::new(), Vec::new());
    let mut patience = Some(QUIET);
    // If this fails, so will the first call, and tell.
    let _ = shared.with(|writer| checkpoint::begin(&writer.connection));
    loop {
        let turn = queue.take(&mut commands, &mut pile, patience);
        let next =
            shared.with(|writer| writer.take_turn(shared, queue, turn, &mut commands, &mut pile));
        match next {
            Some(next) if turn != Turn::End => patience = next,
            // Whoever has ended all writing has left a transaction half done.
            _ => return,
        }
    }
}

/// Writes what a crew has waiting, here and now. If somebody is at something that
/// takes too long to be waited for, this is left to the thread.
pub(super) fn write_now(shared: &Shared<Writer>, queue: &Queue, crew: CrewId) {
    match shared.offer(|writer| writer.write_waiting(queue, crew)) {
        Offer::Done(true) => {}
        Offer::Done(false) | Offer::Engaged => queue.hand_over(crew),
        Offer::Over => queue.end(),
    }
}

/// A chain of this writer's own, named by what no other has.
fn new_chain() -> Chain {
    Chain::new(&id::new_id(Timestamp::from_millis(0)).to_string())
}

fn warn_of_log(kept_up: rusqlite::Result<()>) {
    if let Err(error) = kept_up {
        tracing::warn!(%error, "the write-ahead log cannot be checkpointed");
    }
}

/// The one who writes.
pub(super) struct Writer {
    /// Before the connection, because it must end before that closes.
    pub(super) checkpoints: Checkpoints,
    pub(super) connection: Connection,
    chain: Chain,
    /// The last record of the chain, or zero.
    chained: i64,
    counters: Counters,
    /// When ended windows were last forgotten.
    forgotten: i64,
    steady: Steady,
    /// The newest record this writer knows of: of all, once a transaction has begun.
    pub(super) newest: i64,
    /// The block the index goes on with; unknown until it is first asked for.
    pub(super) next_block: Option<i64>,
    is_failing: bool,
    /// Lines that were written.
    blanks: Vec<Line>,
    /// Records of reservations of this transaction that are not yet written.
    made: Vec<Line>,
    /// Where what waits is put while it is carried out.
    room: (Vec<Command>, Vec<Line>),
    /// Where rows of the log are put together.
    sheet: Sheet,
    /// Whether nobody else has written since the last transaction.
    is_as_seen: bool,
    /// Transactions that callers have made since the thread last looked.
    made_by_callers: u32,
}

impl Writer {
    /// Does what the thread is to do now; how long it may then be idle.
    fn take_turn(
        &mut self,
        shared: &Shared<Writer>,
        queue: &Queue,
        turn: Turn,
        commands: &mut Vec<Command>,
        pile: &mut Vec<Line>,
    ) -> Option<Duration> {
        // A commit like those of callers is soon done, and anything else is not.
        let is_long = pile.len() > MANY_PILED || commands.iter().any(Command::is_task);
        if turn != Turn::Write || is_long {
            shared.engage();
        }
        let was_used = mem::take(&mut self.made_by_callers) > 0;
        self.close_view();
        let patience = match turn {
            Turn::Write | Turn::End => {
                let begun = if self.begin_at_once() {
                    Ok(())
                } else {
                    shared.engage();
                    self.execute("BEGIN IMMEDIATE").map_err(StoreError::from)
                };
                self.commit_begun(queue, commands, pile, begun);
                if turn == Turn::Write {
                    shared.engage();
                    self.keep_up();
                }
                Some(QUIET)
            }
            Turn::Idle if was_used => {
                self.keep_up();
                Some(QUIET)
            }
            Turn::Idle => self.idle(queue),
        };
        if self.is_failing { Some(PROBE) } else { patience }
    }

    /// Carries out what a crew has waiting, without waiting itself: `false` if that
    /// cannot be done now, and the thread has to.
    fn write_waiting(&mut self, queue: &Queue, crew: CrewId) -> bool {
        if self.is_failing || !self.go_on() && !self.begin_at_once() {
            return false;
        }
        self.made_by_callers = self.made_by_callers.saturating_add(1);
        let (mut commands, mut pile) = mem::take(&mut self.room);
        queue.take_waiting(crew, &mut commands, &mut pile, &mut self.blanks);
        let begun = if self.is_as_seen || !self.is_view_worthwhile() {
            Ok(())
        } else {
            view::open(&self.connection).map_err(StoreError::from)
        };
        self.commit_begun(queue, &mut commands, &mut pile, begun);
        self.room = (commands, pile);
        true
    }

    /// Begins a transaction if nobody else has written since the last one.
    fn go_on(&mut self) -> bool {
        let is_open = view::is_open(&self.connection);
        self.is_as_seen = is_open
            && self.made_by_callers < LONGEST_VIEW
            && self.execute("BEGIN IMMEDIATE").is_ok();
        if !self.is_as_seen {
            self.close_view();
        }
        self.is_as_seen
    }

    /// Whether more transactions will follow soon, and the write-ahead log need not
    /// start over: that takes a moment in which nobody has a view of it open.
    fn is_view_worthwhile(&self) -> bool {
        (OFTEN..LONGEST_VIEW).contains(&self.made_by_callers) && !self.checkpoints.is_nearly_large()
    }

    fn close_view(&mut self) {
        self.is_as_seen = false;
        if !view::is_open(&self.connection) {
            return;
        }
        if let Err(error) = view::close(&self.connection) {
            tracing::warn!(%error, "the writer cannot stop reading: the write-ahead log grows");
        }
    }

    /// Begins a transaction, unless another process writes just now.
    fn begin_at_once(&self) -> bool {
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let begun = self.execute("BEGIN IMMEDIATE");
        let _ = self.connection.busy_timeout(open::PATIENCE);
        begun.is_ok()
    }

    /// Does what can wait no longer, busy as it may be.
    fn keep_up(&mut self) {
        if self.behind() > MOST_BEHIND {
            self.index_apart();
        }
        warn_of_log(self.checkpoints.keep_up(&self.connection));
    }

    /// Does what can wait; how long to be idle until the next of it.
    fn idle(&mut self, queue: &Queue) -> Option<Duration> {
        if self.is_failing {
            let begun = self.execute("BEGIN IMMEDIATE").map_err(StoreError::from);
            self.commit_begun(queue, &mut Vec::new(), &mut Vec::new(), begun);
            return Some(PROBE);
        }
        if self.next_block.is_none() {
            let next = index::next(&self.connection).inspect_err(|error| {
                tracing::warn!(%error, "the log's index cannot be read");
            });
            let (next, newest) = next.ok()?;
            (self.next_block, self.newest) = (Some(next), newest);
        }
        if self.behind() > 0 && self.index_apart() {
            return Some(Duration::ZERO);
        }
        warn_of_log(self.checkpoints.tidy(&self.connection));
        None
    }

    /// Full blocks that are not in the index.
    pub(super) fn behind(&self) -> i64 {
        self.next_block.map_or(0, |next| index::block_of(self.newest + 1) - next)
    }

    /// Builds one block of the index in a transaction of its own.
    fn index_apart(&mut self) -> bool {
        let built = self.connection.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
            self.index()?;
            self.connection.execute_batch("COMMIT")
        });
        if let Err(error) = &built {
            let _ = self.connection.execute_batch("ROLLBACK");
            self.next_block = None;
            tracing::warn!(%error, "the log's index cannot be built on");
        }
        built.is_ok()
    }

    /// Builds one block of the index in the transaction that runs.
    pub(super) fn index(&mut self) -> rusqlite::Result<()> {
        let Some(block) = self.next_block else { return Ok(()) };
        self.next_block = Some(index::build(&self.connection, block)?);
        Ok(())
    }

    /// Carries a batch out in the transaction that has begun, if it has.
    fn commit_begun(
        &mut self,
        queue: &Queue,
        commands: &mut Vec<Command>,
        pile: &mut Vec<Line>,
        begun: Result<(), StoreError>,
    ) {
        let (chain, chained) = (self.chain.clone(), self.chained);
        let mut done = Vec::with_capacity(commands.len());
        let mut batch = commands.drain(..);
        let fate = begun.and_then(|()| self.transaction(&mut batch, pile, &mut done));
        if let Err(error) = &fate {
            // Nothing of it is on disk, so nothing of it has happened.
            let _ = self.connection.execute_batch("ROLLBACK");
            self.close_view();
            (self.chain, self.chained) = (chain, chained);
            self.counters = Counters::default();
            self.sheet.forget_forms();
            self.next_block = None;
            queue.give_back(pile);
            batch.by_ref().for_each(|command| command.refuse(error));
        }
        drop(batch);
        pile.drain(..).for_each(|line| self.reuse(line));
        self.note(queue, &fate);
        for done in done {
            done.answer(fate.clone());
        }
    }

    /// Keeps a line to be written on again, if there is room.
    fn reuse(&mut self, line: Line) {
        if self.blanks.len() < MOST_BLANKS {
            self.blanks.extend(line.into_blank());
        }
    }

    fn note(&mut self, queue: &Queue, fate: &Result<(), StoreError>) {
        let failed = fate.as_ref().err().map(ToString::to_string);
        if let Some(error) = &failed
            && !self.is_failing
        {
            tracing::error!(%error, "the store fails: calls are refused");
        }
        if mem::replace(&mut self.is_failing, failed.is_some()) || failed.is_some() {
            queue.note(failed);
        }
    }

    fn transaction(
        &mut self,
        batch: &mut impl Iterator<Item = Command>,
        pile: &mut [Line],
        done: &mut Vec<Done>,
    ) -> Result<(), StoreError> {
        if !self.is_as_seen && self.counters.is_behind(&self.connection)? {
            self.newest = index::newest(&self.connection)?;
            self.counters.catch_up(&self.connection, self.newest)?;
            if self.is_cut_off()? {
                self.begin_chain();
            }
        }
        let mut made = mem::take(&mut self.made);
        let carried_out = batch.try_for_each(|command| match command {
            Command::Reserve(reserve) => self.carry_out(reserve, &mut made, done),
            Command::Task(work) => {
                // What it writes comes after what was reserved before it.
                if let Err(error) = self.append_all(made.iter_mut()) {
                    work.refuse(&error);
                    return Err(error);
                }
                made.drain(..).for_each(|line| self.reuse(line));
                let (finish, went) = work.run(self);
                done.push(Done::Task(finish));
                went
            }
        });
        let lines = made.iter_mut().chain(pile);
        let written = carried_out.and_then(|()| self.append_all(lines));
        made.drain(..).for_each(|line| self.reuse(line));
        self.made = made;
        written?;
        if self.is_failing {
            // Only a write shows whether writing works.
            checkpoint::touch(&self.connection)?;
        }
        Ok(self.execute("COMMIT")?)
    }

    /// Whether another process has pruned the last record of the chain.
    fn is_cut_off(&self) -> rusqlite::Result<bool> {
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM log WHERE seq = ?1)";
        if self.chained == 0 {
            return Ok(false);
        }
        self.connection.prepare_cached(sql)?.query_row([self.chained], |row| row.get(0))
    }

    /// Begins another chain. One that was pruned to its end is not gone on with,
    /// so that anchors need to name only chains of which something is left.
    fn begin_chain(&mut self) {
        (self.chain, self.chained) = (new_chain(), 0);
    }

    /// Sees to it that the chain does not go on from a record that is to be pruned.
    pub(super) fn leave_behind(&mut self, through: i64) {
        if self.chained <= through {
            self.begin_chain();
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Changes something else, with the record that says so. If there was
    /// nothing to change, there is nothing to record.
    pub(super) fn change<T>(
        &mut self,
        record: &Record,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Option<T>>,
    ) -> Result<Option<T>, StoreError> {
        let value = work(&self.connection)?;
        if value.is_some() {
            self.append(&mut record.line())?;
        }
        Ok(value)
    }

    /// Appends a record to the log.
    pub(super) fn append(&mut self, line: &mut Line) -> Result<(), StoreError> {
        self.append_all(std::slice::from_mut(line).iter_mut())
    }

    /// Appends records to the log, in their order.
    fn append_all<'l>(
        &mut self,
        lines: impl Iterator<Item = &'l mut Line>,
    ) -> Result<(), StoreError> {
        let mut lines = lines.peekable();
        let Some(at) = lines.peek().map(|line| line.at()) else { return Ok(()) };
        {
            let sql = "INSERT INTO log (seq, body, counts) VALUES (?1, ?2, ?3)";
            let mut insert = self.connection.prepare_cached(sql)?;
            while lines.peek().is_some() {
                let (count, body) = self.sheet.write(&mut self.chain, self.newest, &mut lines);
                let newest = self.newest.checked_add(count);
                self.newest =
                    newest.ok_or_else(|| StoreError::Failed("its numbers are used up".into()))?;
                insert.execute(params![self.newest, body, self.counters.say(self.newest)])?;
            }
        }
        self.chained = self.newest;
        forms::keep(&self.connection, &mut self.sheet, self.newest)?;
        let now = self.steady.now(at.as_millis());
        let is_time_to_forget = now.saturating_sub(self.forgotten) > FORGET_AFTER;
        if is_time_to_forget || self.counters.is_much_logged() {
            self.enter_counters()?;
        }
        if is_time_to_forget {
            self.forgotten = now;
            self.counters.drop_ended(&self.connection, now.saturating_sub(FORGET_AFTER))?;
        }
        Ok(())
    }

    /// Sees to it that what counters read is not in the log alone.
    pub(super) fn enter_counters(&mut self) -> rusqlite::Result<()> {
        self.counters.enter(&self.connection)
    }
}
