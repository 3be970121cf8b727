//! The threads that connections live on.
//!
//! Each has a runtime of its own, and what is begun on one stays there: a call
//! goes from the client's connection to the server's and back without another
//! thread taking part, unless a commit is shared. With one runtime for all, threads
//! take work from each other, and with it the memory it uses.

use std::{
    io,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// Connections that share a thread before another one is used. One thread makes
/// tens of thousands of calls a second, and several cost more for each: they wake
/// one another, and fewer calls share a commit.
const SHARING: usize = 24;

/// See the module. When dropped, they end with all that still lives on them.
#[derive(Debug, Default)]
pub struct Threads(Vec<Thread>);

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// Connections that live here.
    taken: Arc<AtomicUsize>,
    /// Gone when it is to end. Both are there until then.
    end: Option<oneshot::Sender<()>>,
    joined: Option<thread::JoinHandle<()>>,
}

/// A connection's place on a thread, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<AtomicUsize>);

impl Threads {
    /// Starts as many as there are processors for this process.
    pub fn start() -> io::Result<Threads> {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        (0..count).map(|_| Thread::start()).collect::<io::Result<_>>().map(Threads)
    }

    /// Where the next connection is to live. Without threads, that is where this
    /// is asked.
    pub(super) fn seat(&self) -> (Handle, Seat) {
        let taken: usize = self.0.iter().map(Thread::taken).sum();
        let used = taken / SHARING + 1;
        let Some(thread) = self.0.iter().take(used).min_by_key(|thread| thread.taken()) else {
            return (Handle::current(), Seat(Arc::new(AtomicUsize::new(1))));
        };
        thread.taken.fetch_add(1, Ordering::Relaxed);
        (thread.runtime.clone(), Seat(Arc::clone(&thread.taken)))
    }
}

impl Thread {
    fn start() -> io::Result<Thread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let run = move || {
            // Nothing is ever sent: that the other end is dropped says it.
            let _ = runtime.block_on(ended);
            // A lookup of a name that takes long is not waited for.
            runtime.shutdown_background();
        };
        let joined = Some(thread::Builder::new().name("calls".into()).spawn(run)?);
        Ok(Thread { runtime: handle, taken: Arc::default(), end: Some(end), joined })
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
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

    use super::{SHARING, Thread, Threads};

    fn threads(count: usize) -> Threads {
        Threads((0..count).map(|_| Thread::start().unwrap()).collect())
    }

    fn taken(threads: &Threads) -> Vec<usize> {
        threads.0.iter().map(Thread::taken).collect()
    }

    #[test]
    fn few_connections_share_a_thread_and_many_are_spread() {
        let threads = threads(3);
        let mut seats: Vec<_> = iter::repeat_with(|| threads.seat()).take(SHARING).collect();
        assert_eq!(taken(&threads), [SHARING, 0, 0]);
        seats.extend(iter::repeat_with(|| threads.seat()).take(SHARING));
        assert_eq!(taken(&threads), [SHARING, SHARING, 0]);
        seats.extend(iter::repeat_with(|| threads.seat()).take(28 * SHARING));
        assert_eq!(taken(&threads), [10 * SHARING; 3]);
        drop(seats);
        assert_eq!(taken(&threads), [0; 3]);
    }

    #[test]
    fn what_lives_on_a_thread_stays_there_and_ends_with_it() {
        let threads = threads(1);
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

    #[tokio::test]
    async fn without_threads_connections_live_where_they_are_taken() {
        let (runtime, _seat) = Threads::default().seat();
        let here = std::thread::current().id();
        let there = runtime.spawn(async { std::thread::current().id() }).await.unwrap();
        assert_eq!(there, here);
    }
}
