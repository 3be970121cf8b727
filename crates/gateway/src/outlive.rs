//! Lets a request finish after its client has disconnected: in the legacy era a disconnect
//! is not a cancellation. Only so many requests may run on; others end with their client.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::HeaderMap;
use sluice_http::headers::REVISION;
use sluice_wire::mcp::{Era, Revision};

use crate::{budget::Budget, gateway::Inner, grants::Holder};

/// When work ends after its client has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    WithTheClient,
    WhenDone,
}

impl Ends {
    /// A modern client that disconnects has cancelled its request, a legacy client has
    /// not. Whether the body agrees with this header is checked later.
    pub(crate) fn of(headers: &HeaderMap) -> Ends {
        let version = headers.get(REVISION).and_then(|value| value.to_str().ok());
        match version.and_then(Revision::from_name).map(Revision::era) {
            Some(Era::Modern) => Ends::WithTheClient,
            _ => Ends::WhenDone,
        }
    }
}

/// What a request needs to run on without its client.
pub(crate) struct Absence {
    budget: Budget,
    grant: Arc<str>,
}

impl Absence {
    pub(crate) fn new(gateway: &Inner, holder: &Holder) -> Absence {
        let grant = Arc::clone(&holder.reference.id);
        Absence { budget: gateway.unattended.clone(), grant }
    }

    /// Runs `work` until it is done; after `gone`, only if it may run on. `None` if it
    /// may not.
    pub(crate) async fn attend<T>(
        &self,
        work: impl Future<Output = T>,
        gone: impl Future<Output = ()>,
    ) -> Option<T> {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return Some(done),
            () = gone => {}
        }
        let _portion = self.budget.take_one(&self.grant).ok()?;
        Some(work.await)
    }
}

/// Runs `work`. If this future is dropped before `work` is done, `work` may continue in a
/// task of its own.
pub(crate) fn outlive<F>(
    ends: Ends,
    absence: Absence,
    work: Pin<Box<F>>,
) -> impl Future<Output = F::Output> + Send
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    Outliving { work: Some(work), ends, absence }
}

struct Outliving<F: Future + Send + 'static>
where
    F::Output: Send,
{
    work: Option<Pin<Box<F>>>,
    ends: Ends,
    absence: Absence,
}

impl<F: Future + Send + 'static> Future for Outliving<F>
where
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl<F: Future + Send + 'static> Drop for Outliving<F>
where
    F::Output: Send,
{
    fn drop(&mut self) {
        if self.ends == Ends::WhenDone
            && let (Some(work), Ok(runtime)) =
                (self.work.take(), tokio::runtime::Handle::try_current())
            && let Ok(portion) = self.absence.budget.take_one(&self.absence.grant)
        {
            runtime.spawn(async move {
                work.await;
                drop(portion);
            });
        }
    }
}
