//! What one commit takes of the queue.

use tokio::sync::oneshot;

use crate::{
    StoreError,
    counter::{Charge, Lease},
    id::Id,
    ledger::Reserved,
    sqlite::{records::Prepared, writer::Writer},
};

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A write other than a reservation, such as a new grant, as part of a group's transaction.
/// It gets the writer, or the error for which the transaction fails, and returns what
/// answers its caller when the fate of the transaction is known. Only the store's thread
/// runs tasks.
pub(super) type Task = Box<dyn FnOnce(Result<&mut Writer, StoreError>) -> Ran + Send>;

/// Answers a task's caller with the fate of the transaction.
pub(super) type Answer = Box<dyn FnOnce(&Result<(), StoreError>) + Send>;

pub(super) struct Ran {
    pub(super) result: Result<(), StoreError>,
    pub(super) answer: Answer,
}

pub(super) fn build_task<T: Send + 'static>(
    work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    reply: Reply<T>,
) -> Task {
    Box::new(move |writer| {
        let found = writer.and_then(work);
        let result = fate_of(&found);
        // The caller may have stopped waiting.
        let answer = Box::new(move |fate: &Result<(), StoreError>| {
            drop(reply.send(fate.clone().and(found)));
        });
        Ran { result, answer }
    })
}

/// What a result means for its transaction: a refusal leaves it as it is.
pub(super) fn fate_of<T>(found: &Result<T, StoreError>) -> Result<(), StoreError> {
    match found {
        Err(error) if !error.is_refusal() => Err(error.clone()),
        _ => Ok(()),
    }
}

/// A record to write, with the charges that must fit.
pub(in crate::sqlite) struct Write {
    /// The id of the reservation, if it is one. A reservation is made only once.
    pub(in crate::sqlite) id: Option<Id>,
    pub(in crate::sqlite) charges: Vec<Charge>,
    pub(in crate::sqlite) leases: Vec<Lease>,
    pub(in crate::sqlite) record: Prepared,
    pub(in crate::sqlite) reply: Reply<Reserved>,
}

/// The part of the queue that one commit takes.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) writes: Vec<Write>,
    pub(super) tasks: Vec<Task>,
    pub(super) deferred: Vec<Prepared>,
    pub(super) ended: Vec<Id>,
    pub(super) needs_sync: bool,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.tasks.is_empty()
            && self.deferred.is_empty()
            && self.ended.is_empty()
    }
}
