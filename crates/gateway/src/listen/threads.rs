//! The threads that connections run on: each has a single-threaded runtime, and a connection
//! stays on its thread, with its calls and their HTTP/1.1 connections to servers. A
//! multi-threaded runtime would move tasks, and the memory they use, between cores.

use std::{
    cell::OnceCell,
    io,
    num::NonZero,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use sluice_store::commit_on_this_thread;
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// Connections that share a thread before another thread is used. One thread handles tens
/// of thousands of calls a second, and the fewer connections it has, the fewer calls
/// share a commit.
const SHARING: usize = 32;
/// As many connections as one long answer weighs while it is relayed.
const WEIGHT: usize = 8;
/// The longest sleep of a thread. Timers of calls are due later: setting a timer that is
/// due before all others makes the runtime wake itself.
const NAP: Duration = Duration::from_secs(10);

/// See the module. When this is dropped, the threads end together with all their tasks.
#[derive(Debug, Default)]
pub struct Threads(Mutex<Started>);

#[derive(Debug, Default)]
struct Started {
    /// The threads started so far.
    threads: Vec<Thread>,
    /// The maximum number of threads.
    most: usize,
    commits: Commits,
}

/// The thread that commits the records of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Commits {
    /// The call's own thread, which is faster.
    WithCalls,
    /// The store's thread, so that connections are served even if the disk stalls.
    #[default]
    Apart,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// Connections on this thread, and the weight of what they relay.
    taken: Arc<AtomicUsize>,
    /// Dropped to end the thread. Both fields are set until then.
    end: Option<oneshot::Sender<()>>,
    joined: Option<thread::JoinHandle<()>>,
}

/// A connection's place on a thread; it is freed on drop.
#[derive(Debug)]
pub(super) struct Seat(Arc<AtomicUsize>);

thread_local! {
    /// What is taken of the current thread, if it serves connections.
    static TAKEN: OnceCell<Arc<AtomicUsize>> = const { OnceCell::new() };
}

/// The weight of something that keeps a thread busy; it is removed on drop. New connections are
/// placed on threads that have less to do.
#[derive(Debug)]
pub(crate) struct Load(Option<Arc<AtomicUsize>>);

impl Load {
    /// A long answer that the current thread relays.
    pub(crate) fn of_long_answer() -> Load {
        let taken = TAKEN.with(|taken| taken.get().cloned());
        if let Some(taken) = &taken {
            taken.fetch_add(WEIGHT, Ordering::Relaxed);
        }
        Load(taken)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(taken) = &self.0 {
            taken.fetch_sub(WEIGHT, Ordering::Relaxed);
        }
    }
}

impl Threads {
    /// At most one thread per processor available to this process. One is started now,
    /// the others when there are connections for them.
    pub fn start(commits: Commits) -> io::Result<Threads> {
        Threads::up_to(thread::available_parallelism().map_or(1, NonZero::get), commits)
    }

    fn up_to(most: usize, commits: Commits) -> io::Result<Threads> {
        let threads = vec![Thread::start(commits)?];
        Ok(Threads(Mutex::new(Started { threads, most, commits })))
    }

    /// Picks the runtime for the next connection. If there are no threads, it is the
    /// caller's.
    pub(super) fn seat(&self) -> (Handle, Seat) {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: usize = started.threads.iter().map(Thread::connections).sum();
        let used = (taken / SHARING + 1).min(started.most);
        if started.threads.len() < used {
            match Thread::start(started.commits) {
                Ok(thread) => started.threads.push(thread),
                Err(error) => {
                    started.most = started.threads.len();
                    tracing::warn!(%error, "no further thread for calls can be started");
                }
            }
        }
        let least = started.threads.iter().take(used).min_by_key(|thread| thread.connections());
        let Some(thread) = least else {
            return (Handle::current(), Seat(Arc::new(AtomicUsize::new(1))));
        };
        thread.taken.fetch_add(1, Ordering::Relaxed);
        (thread.runtime.clone(), Seat(Arc::clone(&thread.taken)))
    }
}

impl Thread {
    fn start(commits: Commits) -> io::Result<Thread> {
        let (end, ended) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let taken = Arc::<AtomicUsize>::default();
        let own = Arc::clone(&taken);
        // The runtime is built and dropped on its own thread: it must not be dropped
        // inside another runtime.
        let run = move || {
            if commits == Commits::WithCalls {
                commit_on_this_thread();
            }
            let made = Builder::new_current_thread().enable_all().build();
            let runtime = match made {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(error))),
            };
            TAKEN.with(|taken| drop(taken.set(own)));
            let _ = tell.send(Ok(runtime.handle().clone()));
            runtime.block_on(nap_until(ended));
            // Slow name lookups are not waited for.
            runtime.shutdown_background();
        };
        let joined = Some(thread::Builder::new().name("calls".into()).spawn(run)?);
        let runtime = told.recv().map_err(io::Error::other)??;
        Ok(Thread { runtime, taken, end: Some(end), joined })
    }

    fn connections(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Sleeps in short naps until the other end is dropped; nothing is ever sent.
async fn nap_until(mut ended: oneshot::Receiver<()>) {
    while tokio::time::timeout(NAP, &mut ended).await.is_err() {}
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.joined.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::{Commits, Load, SHARING, Thread, Threads, WEIGHT};

    fn taken(threads: &Threads) -> Vec<usize> {
        threads.0.lock().unwrap().threads.iter().map(Thread::connections).collect()
    }

    #[test]
    fn few_connections_share_a_thread_and_many_are_spread() {
        let threads = Threads::up_to(3, Commits::WithCalls).unwrap();
        let mut seats: Vec<_> = iter::repeat_with(|| threads.seat()).take(SHARING).collect();
        assert_eq!(taken(&threads), [SHARING]);
        seats.extend(iter::repeat_with(|| threads.seat()).take(SHARING));
        assert_eq!(taken(&threads), [SHARING; 2]);
        seats.extend(iter::repeat_with(|| threads.seat()).take(28 * SHARING));
        assert_eq!(taken(&threads), [10 * SHARING; 3]);
        drop(seats);
        assert_eq!(taken(&threads), [0; 3]);
    }

    #[test]
    fn a_task_stays_on_its_thread_and_ends_with_it() {
        let threads = Threads::up_to(1, Commits::Apart).unwrap();
        let (runtime, _seat) = threads.seat();
        let (sender, receiver) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
            std::future::pending::<()>().await;
            drop(sender);
        });
        assert_eq!(receiver.recv().unwrap().as_deref(), Some("calls"));
        drop(threads);
        assert!(receiver.recv().is_err());
    }

    #[test]
    fn a_connection_is_placed_where_no_long_answers_are_relayed() {
        let threads = Threads::up_to(2, Commits::Apart).unwrap();
        let (busy, _seat) = threads.seat();
        let (sender, relaying) = std::sync::mpsc::channel();
        busy.spawn(async move {
            let answers: Vec<_> =
                iter::repeat_with(Load::of_long_answer).take(SHARING / WEIGHT).collect();
            sender.send(answers).unwrap();
        });
        let answers = relaying.recv().unwrap();
        assert_eq!(taken(&threads), [SHARING + 1]);
        let _other = threads.seat();
        assert_eq!(taken(&threads), [SHARING + 1, 1]);
        drop(answers);
        assert_eq!(taken(&threads), [1, 1]);
    }

    #[tokio::test]
    async fn without_threads_connections_run_on_the_accepting_thread() {
        let (runtime, _seat) = Threads::default().seat();
        let here = std::thread::current().id();
        let there = runtime.spawn(async { std::thread::current().id() }).await.unwrap();
        assert_eq!(there, here);
    }
}
