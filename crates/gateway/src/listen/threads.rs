//! The threads that connections live on.
//!
//! Each has a runtime of its own, and what is begun on one stays there: a call
//! goes from the client's connection to the server's and back without another
//! thread taking part, unless a commit is shared. With one runtime for all, threads
//! take work from each other, and with it the memory it uses.

use std::{io, num::NonZero, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// See the module. When dropped, they end with all that still lives on them.
#[derive(Debug, Default)]
pub struct Threads(Vec<Thread>);

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// Gone when it is to end. Both are there until then.
    end: Option<oneshot::Sender<()>>,
    joined: Option<thread::JoinHandle<()>>,
}

impl Threads {
    /// Starts as many as there are processors for this process.
    pub fn start() -> io::Result<Threads> {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        (0..count).map(|_| Thread::start()).collect::<io::Result<_>>().map(Threads)
    }

    /// Where the next connection is to live: where there is least so far. Without
    /// threads, that is where this is asked.
    pub(super) fn next(&self) -> Handle {
        let least = self.0.iter().min_by_key(|thread| thread.runtime.metrics().num_alive_tasks());
        least.map_or_else(Handle::current, |thread| thread.runtime.clone())
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
        let joined = thread::Builder::new().name("calls".into()).spawn(run)?;
        Ok(Thread { runtime: handle, end: Some(end), joined: Some(joined) })
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
