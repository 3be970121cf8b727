//! Coalesces the notifications of one stream that a list has changed: of each kind, at most
//! one in a short interval is passed on, and the last one always.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

/// Of one kind, at most one notification in this time is passed on.
const INTERVAL: Duration = Duration::from_secs(1);
/// The kinds of lists.
const KINDS: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
];

/// The notifications of one stream that are held back.
#[derive(Debug)]
pub(crate) struct ListChanges<T> {
    kinds: [Recent<T>; KINDS.len()],
    /// When the first one that is held back may be passed on; `None` if there is none.
    due: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
struct Recent<T> {
    /// When the last one was passed on.
    passed: Option<Instant>,
    /// The last one since then.
    held: Option<T>,
}

impl<T> Default for ListChanges<T> {
    fn default() -> ListChanges<T> {
        let kinds = KINDS.map(|_| Recent { passed: None, held: None });
        ListChanges { kinds, due: None }
    }
}

impl<T> ListChanges<T> {
    /// Whether a method is such a notification.
    pub(crate) fn concerns(method: &str) -> bool {
        KINDS.contains(&method)
    }

    /// Takes a notification; returns it if it may be passed on now.
    pub(crate) fn admit(&mut self, method: &str, notification: T) -> Option<T> {
        let place = KINDS.iter().position(|kind| *kind == method);
        let Some(recent) = place.and_then(|place| self.kinds.get_mut(place)) else {
            return Some(notification);
        };
        let now = Instant::now();
        match recent.passed {
            Some(passed) if recent.held.is_some() || now < passed + INTERVAL => {
                recent.held = Some(notification);
                if self.due.is_none() {
                    self.due = Some(Box::pin(tokio::time::sleep_until(passed + INTERVAL)));
                }
                None
            }
            _ => {
                recent.passed = Some(now);
                Some(notification)
            }
        }
    }

    /// Waits until a notification that is held back may be passed on; for ever if there is
    /// none.
    pub(crate) fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<T> {
        loop {
            let Some(due) = &mut self.due else { return Poll::Pending };
            ready!(due.as_mut().poll(context));
            let now = Instant::now();
            let ripe = |recent: &&mut Recent<T>| {
                recent.held.is_some() && recent.passed.is_none_or(|passed| passed + INTERVAL <= now)
            };
            let next = self.kinds.iter_mut().find(ripe).and_then(|recent| {
                recent.passed = Some(now);
                recent.held.take()
            });
            self.due = self.next_due().map(|at| Box::pin(tokio::time::sleep_until(at)));
            if let Some(notification) = next {
                return Poll::Ready(notification);
            }
        }
    }

    /// The next notification that is held back, because the stream ends.
    pub(crate) fn flush(&mut self) -> Option<T> {
        self.kinds.iter_mut().find_map(|recent| recent.held.take())
    }

    fn next_due(&self) -> Option<Instant> {
        let held = self.kinds.iter().filter(|recent| recent.held.is_some());
        held.filter_map(|recent| recent.passed).min().map(|passed| passed + INTERVAL)
    }
}
