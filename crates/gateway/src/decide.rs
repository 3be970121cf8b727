//! Judging a message and reserving its charges: on the thread of its connection, or on
//! another one if judging may take long, so that other calls of the thread do not wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use sluice_wire::{
    json::Document,
    rpc::{Id, Message},
};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

use crate::{
    assess::ToolList,
    call::read,
    exchange::Exchange,
    judge::{Route, judge},
    refusal::Refusal,
    reserve::{Permitted, reserve},
};

/// A longer message is judged on another thread, in bytes.
const LONG_MESSAGE: usize = 64 << 10;
/// The most steps of regexes on the thread of a connection; about a hundredth of a second.
const MOST_STEPS: u64 = 1 << 20;
/// Messages with more steps that are judged at once. Further ones wait for their turn.
const MOST_SEARCHED: usize = 4;
/// Those of one grant, so that one grant does not take all turns.
const MOST_OF_GRANT: usize = 2;

/// What becomes of a message. Nothing in it refers to the message.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most messages are sent, and moving one costs less than allocating it"
)]
pub(crate) enum Decided {
    /// Sent to the server.
    Permitted(Permitted),
    /// As in [`Route`].
    Subscribe(Id),
    Answered {
        id: Id,
        result: String,
    },
    Ignored,
}

/// Turns for searching long texts.
#[derive(Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    /// The turns of each grant that has or awaits one.
    of_grants: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { all: Arc::new(Semaphore::new(MOST_SEARCHED)), of_grants: Mutex::default() }
    }
}

impl Turns {
    /// Waits for a turn of the grant, and then for one of all. They end when dropped.
    async fn take(&self, grant: &Arc<str>) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = self.of_grant(grant)?.acquire_owned().await.ok()?;
        Some([own, Arc::clone(&self.all).acquire_owned().await.ok()?])
    }

    fn of_grant(&self, grant: &Arc<str>) -> Option<Arc<Semaphore>> {
        let mut grants = self.of_grants.lock().ok()?;
        if let Some(turns) = grants.get(grant).and_then(Weak::upgrade) {
            return Some(turns);
        }
        grants.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(MOST_OF_GRANT));
        grants.insert(Arc::clone(grant), Arc::downgrade(&turns));
        Some(turns)
    }
}

/// Whether judging a message may take so long that other calls should not wait for it.
pub(crate) fn may_take_long(exchange: &Exchange, document: &Document) -> bool {
    document.text().len() > LONG_MESSAGE || is_long_search(exchange, document)
}

fn is_long_search(exchange: &Exchange, document: &Document) -> bool {
    let steps = exchange.rules().map_or(0, |policy| policy.search_steps(document.text().len()));
    steps > MOST_STEPS
}

/// Judges a message and reserves its charges.
pub(crate) async fn decide(
    exchange: &Arc<Exchange>,
    document: &Document,
    message: Message<'_>,
    tools: Option<Arc<ToolList>>,
) -> Result<Decided, Refusal> {
    Ok(match judge(exchange, document, message, tools)? {
        Route::Decided(judged) => Decided::Permitted(reserve(exchange, judged).await?),
        Route::Subscribe(id) => Decided::Subscribe(id),
        Route::Answered { id, result } => Decided::Answered { id, result },
        Route::Ignored => Decided::Ignored,
    })
}

/// The same on another thread. What it waits for, such as the store, is still driven by this
/// thread's runtime.
pub(crate) async fn decide_apart(
    exchange: &Arc<Exchange>,
    document: &Arc<Document>,
    tools: Option<Arc<ToolList>>,
) -> Result<Decided, Refusal> {
    let turn = if is_long_search(exchange, document) {
        let turns = &exchange.gateway.turns;
        Some(turns.take(&exchange.holder.reference.id).await.ok_or(Refusal::Internal)?)
    } else {
        None
    };
    let (exchange, document) = (Arc::clone(exchange), Arc::clone(document));
    let runtime = Handle::current();
    let judging = spawn_blocking(move || {
        let _turn = turn;
        let message = read(&document)?;
        runtime.block_on(decide(&exchange, &document, message, tools))
    });
    // A panic denies this message, and nothing else.
    judging.await.unwrap_or(Err(Refusal::Internal))
}
