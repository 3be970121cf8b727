//! Calls in progress, which can be cancelled by session and id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use sluice_wire::{
    json::Value,
    rpc::{Id, Message},
};
use tokio::sync::oneshot;

/// A session of a client, and a request's id within it.
type Key = (Box<str>, Id);

/// All calls in progress.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<Mutex<HashMap<Key, oneshot::Sender<()>>>>);

/// A call in progress; dropping this ends it.
#[derive(Debug)]
pub(super) struct Ticket {
    calls: Calls,
    key: Key,
    cancelled: oneshot::Receiver<()>,
}

impl Calls {
    /// Registers a call. `None` if the session already has one with this id.
    pub(super) fn begin(&self, session: &str, id: &Id) -> Option<Ticket> {
        let key = (session.into(), id.clone());
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.contains_key(&key) {
            return None;
        }
        let (cancel, cancelled) = oneshot::channel();
        calls.insert(key.clone(), cancel);
        drop(calls);
        Some(Ticket { calls: self.clone(), key, cancelled })
    }

    /// Cancels the call that a message names, if it is a cancellation.
    pub(super) fn hear(&self, session: &str, message: &Message<'_>) {
        let Message::Notification { method: "notifications/cancelled", params } = message else {
            return;
        };
        let named = params.and_then(|params: Value<'_>| params.get("requestId"));
        let Some(Ok(id)) = named.map(Id::read) else { return };
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cancel) = calls.remove(&(session.into(), id)) {
            let _ = cancel.send(());
        }
    }
}

impl Ticket {
    /// Returns the result of the work. On cancellation it drops the work and returns `None`.
    pub(super) async fn unless_cancelled<T>(mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            Ok(()) = &mut self.cancelled => None,
            done = work => Some(done),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cancelled.close();
        let mut calls = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        // After a cancellation, another call may use the same id: its sender is open, while that of
        // this ticket is closed.
        if calls.get(&self.key).is_some_and(oneshot::Sender::is_closed) {
            calls.remove(&self.key);
        }
    }
}
