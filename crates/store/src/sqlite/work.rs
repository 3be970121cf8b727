//! What a transaction is made of, and how those are answered who wait for it.

use tokio::sync::oneshot;

use super::{Reservation, StoreError, queue::Command, writer::Writer};

/// A part of the next transaction, and whoever waits for it.
pub(super) trait Work: Send {
    /// Does its part, and says how that went and what answers once the
    /// transaction's fate is known.
    fn run(self: Box<Self>, writer: &mut Writer) -> (Finish, Result<(), StoreError>);
    /// Answers that it was not come to.
    fn refuse(self: Box<Self>, error: &StoreError);
}

pub(super) type Finish = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Work that answers with what it found.
pub(super) struct Task<T, F> {
    pub(super) work: F,
    pub(super) reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Task<T, F>
where
    T: Send + 'static,
    F: FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
{
    fn run(self: Box<Self>, writer: &mut Writer) -> (Finish, Result<(), StoreError>) {
        let Task { work, reply } = *self;
        let found = work(writer);
        let went = found.as_ref().map(|_| ()).map_err(StoreError::clone);
        // Whoever has stopped waiting does not need an answer.
        (Box::new(move |fate| drop(reply.send(fate.and(found)))), went)
    }

    fn refuse(self: Box<Self>, error: &StoreError) {
        drop(self.reply.send(Err(error.clone())));
    }
}

impl Command {
    pub(super) fn is_task(&self) -> bool {
        matches!(self, Command::Task(_))
    }

    pub(super) fn refuse(self, error: &StoreError) {
        match self {
            Command::Reserve(reserve) => drop(reserve.reply.send(Err(error.clone()))),
            Command::Task(work) => work.refuse(error),
        }
    }
}

/// A command that was carried out, and waits for the transaction's fate.
pub(super) enum Done {
    Reserve(oneshot::Sender<Result<Reservation, StoreError>>, Result<Reservation, StoreError>),
    Task(Finish),
}

impl Done {
    pub(super) fn answer(self, fate: Result<(), StoreError>) {
        match self {
            Done::Reserve(reply, found) => drop(reply.send(fate.and(found))),
            Done::Task(finish) => finish(fate),
        }
    }
}
