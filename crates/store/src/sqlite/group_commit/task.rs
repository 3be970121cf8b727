//! Parts of a transaction that are closures: everything but reservations.

use tokio::sync::oneshot;

use super::super::writer::Writer;
use crate::StoreError;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Any other part of a transaction. Only the store's thread runs these.
pub(super) trait Task: Send {
    /// Runs the task. Returns a closure that answers the caller once the transaction has
    /// succeeded or failed, and whether the task itself succeeded.
    fn run(self: Box<Self>, writer: &mut Writer) -> (Answer, Result<(), StoreError>);
    /// A closure that tells the caller that the task was not run.
    fn refuse(self: Box<Self>) -> Answer;
}

pub(super) type Answer = Box<dyn FnOnce(&Result<(), StoreError>) + Send>;

/// Work whose result goes to a waiting caller.
pub(super) struct TaskFor<T, F> {
    pub(super) work: F,
    pub(super) reply: Reply<T>,
}

impl<T, F> Task for TaskFor<T, F>
where
    T: Send + 'static,
    F: FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
{
    fn run(self: Box<Self>, writer: &mut Writer) -> (Answer, Result<(), StoreError>) {
        let TaskFor { work, reply } = *self;
        let found = work(writer);
        let went = found.as_ref().map(|_| ()).map_err(StoreError::clone);
        // The caller may have stopped waiting.
        (Box::new(move |fate| drop(reply.send(fate.clone().and(found)))), went)
    }

    fn refuse(self: Box<Self>) -> Answer {
        let missed = || Err(StoreError::Stopped);
        Box::new(move |fate| drop(self.reply.send(fate.clone().and_then(|()| missed()))))
    }
}
