//! Work on large documents, on two threads of its own: a thread that serves calls would serve
//! nobody else meanwhile. Small documents, which are nearly all, are worked on in place.

use std::sync::LazyLock;

use sluice_wire::json::{Bounds, Document, Refusal};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};

/// The size in bytes from which a document is large: work on a smaller one takes a few
/// milliseconds at most.
const LARGE: usize = 256 << 10;
/// The threads for large documents; further ones wait.
const THREADS: usize = 2;

/// `None` if the system gives no threads; then all documents are worked on in place.
static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS).thread_name("large").enable_all();
    builder.build().ok()
});

/// Whether a document of so many bytes is worked on elsewhere.
pub fn is_large(bytes: usize) -> bool {
    bytes >= LARGE
}

/// Runs what handles a large document. `None` if it panics. Like any other future, it ends when
/// this is dropped.
pub async fn run<T: Send + 'static>(
    handling: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let Some(runtime) = &*RUNTIME else { return Some(handling.await) };
    let mut task = JoinSet::new();
    task.spawn_on(handling, runtime.handle());
    task.join_next().await?.ok()
}

/// Does some work on documents of so many bytes. `None` if it panics.
pub async fn by_size<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if !is_large(bytes) {
        return Some(work());
    }
    Box::pin(run(async move { work() })).await
}

/// Parses a document. `None` if that panics.
pub async fn parse(bytes: Vec<u8>, bounds: &Bounds) -> Option<Result<Document, Refusal>> {
    let bounds = *bounds;
    by_size(bytes.len(), move || Document::parse(bytes, &bounds)).await
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::{LARGE, by_size};

    #[tokio::test]
    async fn only_large_documents_leave_the_thread() {
        let here = thread::current().id();
        let id = || thread::current().id();
        assert_eq!(by_size(LARGE - 1, id).await, Some(here));
        assert_ne!(by_size(LARGE, id).await, Some(here));
    }

    #[tokio::test]
    async fn other_tasks_run_meanwhile() {
        let (let_go, waits) = mpsc::channel::<()>();
        let work = by_size(LARGE, move || waits.recv().is_ok());
        let others = async move {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let_go.send(()).unwrap();
        };
        let (done, ()) = tokio::join!(work, others);
        assert_eq!(done, Some(true));
    }
}
