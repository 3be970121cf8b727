//! What waits for the writer: commands that somebody waits for, and a pile of
//! records that nobody does.
//!
//! A lock and a condition, because the writer must be able to doze: records on
//! the pile wake it once, and are then left to gather for a while.
//!
//! Callers that write by themselves wait apart from those of other threads, and
//! are written and answered by one of their own: to wake another thread costs
//! more than a part in its transaction saves.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::{Reservation, StoreError, pace::Pace, wait::wait, work::Work};
use crate::{counter::Charge, record::Line};

/// Commands that may wait; past that, more are refused.
const MOST_COMMANDS: usize = 16_384;
/// Records the pile holds; past that, more are dropped and counted.
const MOST_PILED: usize = 100_000;
/// Threads whose callers wait apart; if there are more, some share.
const MOST_THREADS: usize = 64;
/// Lines kept to be written on again.
pub(super) const MOST_BLANKS: usize = 256;
/// How long records on the pile wait for other work to go along with.
const DOZE: Duration = Duration::from_millis(20);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Something to do in a transaction.
pub(super) enum Command {
    /// The one every call needs, spelled out because it is worth being quick.
    Reserve(Reserve),
    Task(Box<dyn Work>),
}

pub(super) struct Reserve {
    pub(super) charges: Vec<Charge>,
    pub(super) line: Line,
    pub(super) reply: oneshot::Sender<Result<Reservation, StoreError>>,
}

/// How the store is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether what was last tried could be written.
    pub ok: bool,
    /// Why not.
    pub last_error: Option<String>,
    /// Commands that wait for the writer.
    pub queued: usize,
    /// Records that are to be written at some time soon.
    pub piled: usize,
    /// Records that were dropped because the pile was full.
    pub dropped: u64,
}

/// What the writer is to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Carry out what was taken.
    Write,
    /// Nothing has come for as long as it was willing to wait.
    Idle,
    /// Carry out what was taken, and end.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sleep {
    #[default]
    Awake,
    /// Until the pile has gathered for long enough.
    Doze,
    /// For a while, to see whether anything comes.
    Look,
    /// Until there is something to do.
    Deep,
}

/// Those of one thread who wait.
#[derive(Default)]
struct Crew {
    commands: Vec<Command>,
    pace: Pace,
}

#[derive(Default)]
struct State {
    /// For the writer's thread.
    commands: Vec<Command>,
    crews: BTreeMap<CrewId, Crew>,
    pile: Vec<Line>,
    /// Lines that were written, to be written on again: calls in flight make and
    /// drop so many at once that the allocator's own stock does not suffice.
    blanks: Vec<Line>,
    sleep: Sleep,
    /// Something was written without the writer's thread, which is to look after it.
    is_nudged: bool,
    /// No more is taken; what is there is still written.
    is_closed: bool,
    /// The writer is gone.
    has_ended: bool,
    /// Gone when the writer is.
    end: Vec<oneshot::Sender<()>>,
    failure: Option<String>,
    dropped: u64,
}

/// Which thread's callers a command waits with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CrewId(usize);

impl CrewId {
    /// Of the thread that asks.
    fn here() -> CrewId {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static HERE: CrewId = CrewId(NEXT.fetch_add(1, Ordering::Relaxed) % MOST_THREADS);
        }
        HERE.with(|here| *here)
    }
}

/// A command's place among those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the first of its crew: whoever added it sees to it that all are
    /// carried out, and in busy times waits a moment for more.
    Leads {
        crew: CrewId,
        is_busy: bool,
    },
    Shares,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

impl Queue {
    /// Adds a command and wakes the thread for it; fails if nobody would carry
    /// it out.
    pub(super) fn push(&self, command: Command) -> Result<(), StoreError> {
        let mut state = self.put_in(command)?;
        self.rouse(&mut state);
        Ok(())
    }

    /// Adds a command without waking the thread.
    pub(super) fn put(&self, command: Command) -> Result<Place, StoreError> {
        let mut state = self.open()?;
        let crew = CrewId::here();
        let left_to_thread = state.commands.len();
        let Crew { commands, pace } = state.crews.entry(crew).or_default();
        if left_to_thread + commands.len() >= MOST_COMMANDS {
            return Err(StoreError::Overloaded);
        }
        commands.push(command);
        if commands.len() > 1 {
            return Ok(Place::Shares);
        }
        Ok(Place::Leads { crew, is_busy: pace.is_busy() })
    }

    fn put_in(&self, command: Command) -> Result<MutexGuard<'_, State>, StoreError> {
        let mut state = self.open()?;
        if state.commands.len() >= MOST_COMMANDS {
            return Err(StoreError::Overloaded);
        }
        state.commands.push(command);
        Ok(state)
    }

    /// The state, unless nobody would carry anything out.
    fn open(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        if state.is_closed || state.has_ended { Err(StoreError::Stopped) } else { Ok(state) }
    }

    fn rouse(&self, state: &mut State) {
        if mem::take(&mut state.sleep) != Sleep::Awake {
            self.wake.notify_one();
        }
    }

    /// Leaves to the thread what a crew has waiting.
    pub(super) fn hand_over(&self, crew: CrewId) {
        let mut state = self.lock();
        let State { crews, commands, .. } = &mut *state;
        if let Some(crew) = crews.get_mut(&crew) {
            commands.append(&mut crew.commands);
        }
        self.rouse(&mut state);
    }

    /// How many commands of a crew wait.
    pub(super) fn waiting(&self, crew: CrewId) -> usize {
        self.lock().crews.get(&crew).map_or(0, |crew| crew.commands.len())
    }

    /// Something to write a line on.
    pub(super) fn blank(&self) -> Line {
        self.lock().blanks.pop().unwrap_or_default()
    }

    /// Takes all that a crew has waiting, and gives lines back.
    pub(super) fn take_waiting(
        &self,
        crew: CrewId,
        commands: &mut Vec<Command>,
        pile: &mut Vec<Line>,
        blanks: &mut Vec<Line>,
    ) {
        let mut state = self.lock();
        let room = MOST_BLANKS.saturating_sub(state.blanks.len());
        state.blanks.extend(blanks.drain(..).take(room));
        mem::swap(&mut state.pile, pile);
        if let Some(crew) = state.crews.get_mut(&crew) {
            mem::swap(&mut crew.commands, commands);
            crew.pace.shared_by(commands.len());
        }
        state.is_nudged = true;
        if state.sleep == Sleep::Deep {
            self.rouse(&mut state);
        }
    }

    /// Adds a record that nobody waits for.
    pub(super) fn pile(&self, line: Line) {
        let mut state = self.lock();
        let is_gone = state.is_closed || state.has_ended;
        if is_gone || state.pile.len() >= MOST_PILED {
            state.dropped += 1;
            let dropped = state.dropped;
            drop(state);
            if dropped.is_power_of_two() {
                tracing::error!(
                    dropped,
                    "records of outcomes are dropped: the store cannot take them"
                );
            }
            return;
        }
        state.pile.push(line);
        if state.sleep == Sleep::Deep {
            state.sleep = Sleep::Awake;
            self.wake.notify_one();
        }
    }

    /// Waits for something to do and takes all of it. With nothing to do, it
    /// waits for `patience`, or for good.
    pub(super) fn take(
        &self,
        commands: &mut Vec<Command>,
        pile: &mut Vec<Line>,
        patience: Option<Duration>,
    ) -> Turn {
        let mut state = self.lock();
        let mut waited = false;
        while state.commands.is_empty() && !state.is_closed {
            let has_pile = !state.pile.is_empty();
            if patience.is_none() && mem::take(&mut state.is_nudged) {
                return Turn::Idle;
            }
            if waited {
                if has_pile {
                    break;
                }
                return Turn::Idle;
            }
            (state, waited) = match (has_pile, patience) {
                (true, _) => {
                    let doze = if state.failure.is_some() { RETRY } else { DOZE };
                    self.sleep(state, Sleep::Doze, Some(doze))
                }
                (false, Some(patience)) => self.sleep(state, Sleep::Look, Some(patience)),
                (false, None) => self.sleep(state, Sleep::Deep, None),
            };
        }
        mem::swap(&mut state.commands, commands);
        mem::swap(&mut state.pile, pile);
        if !state.is_closed {
            return Turn::Write;
        }
        commands.extend(state.crews.values_mut().flat_map(|crew| crew.commands.drain(..)));
        Turn::End
    }

    /// Sleeps; whether the time ran out.
    fn sleep<'q>(
        &'q self,
        mut state: MutexGuard<'q, State>,
        sleep: Sleep,
        time: Option<Duration>,
    ) -> (MutexGuard<'q, State>, bool) {
        state.sleep = sleep;
        let (mut state, ran_out) = wait(&self.wake, state, time);
        state.sleep = Sleep::Awake;
        (state, ran_out)
    }

    /// Puts records back that could not be written, before those that came since.
    pub(super) fn give_back(&self, pile: &mut Vec<Line>) {
        let mut state = self.lock();
        pile.append(&mut state.pile);
        mem::swap(&mut state.pile, pile);
    }

    /// Notes how writing went.
    pub(super) fn note(&self, failure: Option<String>) {
        self.lock().failure = failure;
    }

    pub(super) fn health(&self) -> Health {
        let state = self.lock();
        let last_error = match &state.failure {
            None if state.has_ended => Some(StoreError::Stopped.to_string()),
            failure => failure.clone(),
        };
        Health {
            ok: last_error.is_none(),
            last_error,
            queued: state.commands.len()
                + state.crews.values().map(|crew| crew.commands.len()).sum::<usize>(),
            piled: state.pile.len(),
            dropped: state.dropped,
        }
    }

    /// Takes no more, and lets the writer end once all is written.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_one();
    }

    /// Waits until the writer is gone.
    pub(super) async fn ended(&self) {
        let (end, ended) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.has_ended {
                return;
            }
            state.end.push(end);
        }
        // Nothing is ever sent: that the other end is dropped says it.
        let _ = ended.await;
    }

    /// The writer is gone: nobody waits in vain.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let State { commands, crews, end, .. } = &mut *state;
        let unanswered = (mem::take(commands), mem::take(crews), mem::take(end));
        drop(state);
        drop(unanswered);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
