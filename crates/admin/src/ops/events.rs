//! Events for readers that stay connected: new records of the log, changes of the registry, and the
//! state of the store and of the configuration.
//!
//! One task reads the end of the log for all readers, as long as there are any. What it finds goes
//! into a bounded broadcast; a reader that is further behind than that is dropped, and resumes from
//! the log by the place of its last event.

mod reader;
mod readers;

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use sluice_store::{Change, Cursor, Entry, Filter, GrantRef, Kind, Page, Store, StoreError};
use tokio::{
    sync::broadcast::{Receiver, Sender},
    time::{sleep, timeout},
};

use self::readers::Readers;
pub(crate) use self::{reader::EventReader, readers::TooManyReaders};
use super::Refused;
use crate::live::{FileProblem, Live};

/// How many events a reader may be behind before it is dropped.
const BACKLOG: usize = 8_192;
/// How many records are read from the log at a time.
const PAGE: usize = 256;
/// How long the readers have for a page before the next one is read.
const PACE: Duration = Duration::from_millis(10);
/// How often the log is looked at while nothing changes.
const POLL: Duration = Duration::from_millis(250);

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Record(Kind),
    /// Servers, policies or grants of the store have changed.
    Change,
    /// The store has begun to fail, or works again.
    Health,
    /// The problems of the last reload are others.
    Problems,
    /// The last event of a stream.
    End,
}

impl EventKind {
    /// Those that can be asked for.
    pub(crate) const ALL: [EventKind; 9] = [
        EventKind::Record(Kind::Decision),
        EventKind::Record(Kind::Outcome),
        EventKind::Record(Kind::Auth),
        EventKind::Record(Kind::Approval),
        EventKind::Record(Kind::Admin),
        EventKind::Record(Kind::Drift),
        EventKind::Change,
        EventKind::Health,
        EventKind::Problems,
    ];

    /// Its name, that of the record's kind for records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            EventKind::Record(kind) => kind.as_str(),
            EventKind::Change => "change",
            EventKind::Health => "health",
            EventKind::Problems => "problems",
            EventKind::End => "end",
        }
    }
}

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    /// Where reading can resume after it.
    pub(crate) cursor: Option<Cursor>,
    server: Option<Arc<str>>,
    grant: Option<GrantRef>,
    /// One JSON object.
    pub(crate) data: String,
}

/// Which events a reader wants. A list that is empty, and a field that is `None`, match every event.
/// Server and grant are those of records, and leave out no other events.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventFilter {
    pub(crate) kinds: Vec<EventKind>,
    pub(crate) server: Option<String>,
    /// An id or a label.
    pub(crate) grant: Option<String>,
}

/// The events of one gateway.
#[derive(Clone)]
pub(crate) struct EventHub(Arc<Hub>);

struct Hub {
    store: Store,
    live: Arc<dyn Live>,
    /// Made for the first reader: it has room for the whole backlog.
    sender: OnceLock<Sender<Arc<Event>>>,
    backlog: usize,
    /// Whether the gateway stops.
    has_ended: AtomicBool,
    /// The last record that was sent, while a task reads the log.
    position: Mutex<Option<Cursor>>,
    readers: Readers,
}

impl EventHub {
    pub(crate) fn new(live: Arc<dyn Live>, store: Store) -> EventHub {
        EventHub::with_backlog(live, store, BACKLOG)
    }

    fn with_backlog(live: Arc<dyn Live>, store: Store, backlog: usize) -> EventHub {
        EventHub(Arc::new(Hub {
            store,
            live,
            sender: OnceLock::new(),
            backlog,
            has_ended: AtomicBool::new(false),
            position: Mutex::default(),
            readers: Readers::default(),
        }))
    }

    /// Begins to read, after this place of the log or from now on.
    pub(crate) async fn open(
        &self,
        filter: EventFilter,
        after: Option<Cursor>,
        address: IpAddr,
    ) -> Result<EventReader, Refused> {
        let place = self.0.readers.admit(address).map_err(Refused::Readers)?;
        let hub = Arc::clone(&self.0);
        let Some(after) = after else {
            let (receiver, position) = hub.join().await?;
            return Ok(EventReader::follow(hub, filter, place, receiver, position));
        };
        if after > hub.newest().await? {
            let message = "`Last-Event-ID` is not a place of this log\nhint: read without it";
            return Err(Refused::Invalid(message.into()));
        }
        Ok(EventReader::resume(hub, filter, place, after))
    }

    /// Ends all streams, because the gateway stops.
    pub(crate) fn end(&self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.send(Event::end("the gateway stops"));
    }
}

impl Hub {
    /// Subscribes to what comes after a position, and makes sure that the log is read.
    async fn join(self: &Arc<Self>) -> Result<(Receiver<Arc<Event>>, Cursor), StoreError> {
        if self.has_ended.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        if let Some(joined) = self.subscribe() {
            return Ok(joined);
        }
        let newest = self.newest().await?;
        let epoch = self.store.epoch().await?;
        let mut position = self.lock_position();
        let after = *position.get_or_insert_with(|| {
            tokio::spawn(tail(Arc::clone(self), newest, epoch));
            newest
        });
        // Under the lock: the task can neither send nor end meanwhile.
        Ok((self.sender().subscribe(), after))
    }

    fn sender(&self) -> &Sender<Arc<Event>> {
        self.sender.get_or_init(|| Sender::new(self.backlog))
    }

    fn subscribe(&self) -> Option<(Receiver<Arc<Event>>, Cursor)> {
        let position = self.lock_position();
        position.map(|position| (self.sender().subscribe(), position))
    }

    fn lock_position(&self) -> MutexGuard<'_, Option<Cursor>> {
        // It is whole after every step, so a poisoned lock is still usable.
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of the newest record.
    async fn newest(&self) -> Result<Cursor, StoreError> {
        let filter = Filter { newest_first: true, ..Filter::default() };
        let page = self.store.page(&filter, 1).await?;
        Ok(page.entries.first().map_or(Cursor::START, |entry| entry.cursor))
    }

    /// Sends records, and moves the position behind them.
    fn publish(&self, page: &Page) {
        let mut position = self.lock_position();
        for entry in &page.entries {
            self.send(Event::of_record(entry));
            *position = Some(entry.cursor);
        }
    }

    fn send(&self, event: Event) {
        if let Some(sender) = self.sender.get() {
            // It fails if nobody reads, and then nobody misses the event.
            let _ = sender.send(Arc::new(event));
        }
    }

    /// Whether the task that reads the log ends, because nobody reads. The next reader starts
    /// another one.
    fn is_over(&self) -> bool {
        let mut position = self.lock_position();
        let is_over = self.sender().receiver_count() == 0;
        if is_over {
            *position = None;
        }
        is_over
    }

    /// What the store and the configuration say about themselves now.
    fn state(&self) -> [Event; 2] {
        let health = self.store.health();
        let health = json!({ "ok": health.ok, "last_error": health.last_error });
        [
            Event::new(EventKind::Health, health.to_string()),
            Event::of_problems(&self.live.problems()),
        ]
    }
}

/// Reads the log for all readers, until there are none.
async fn tail(hub: Arc<Hub>, mut after: Cursor, epoch: u64) {
    let mut changes = hub.store.changes(epoch);
    let mut known = hub.state().map(|event| event.data);
    let mut pending = None;
    while !hub.is_over() {
        let filter = Filter { after: Some(after), ..Filter::default() };
        // If it cannot be read, the health of the store says so, and it is tried again.
        let page = hub.store.page(&filter, PAGE).await.unwrap_or_default();
        after = page.entries.last().map_or(after, |entry| entry.cursor);
        hub.publish(&page);
        for (event, known) in hub.state().into_iter().zip(&mut known) {
            if event.data != *known {
                known.clone_from(&event.data);
                hub.send(event);
            }
        }
        if page.next.is_some() {
            sleep(PACE).await;
            continue;
        }
        // A change comes after its record.
        if let Some(change) = pending.take() {
            hub.send(Event::of_change(change));
        }
        match timeout(POLL, changes.next()).await {
            Ok(Ok(change)) => pending = Some(change),
            Ok(Err(_)) => sleep(POLL).await,
            Err(_) => {}
        }
    }
}

impl Event {
    fn new(kind: EventKind, data: String) -> Event {
        Event { kind, cursor: None, server: None, grant: None, data }
    }

    fn of_record(entry: &Entry) -> Event {
        let record = &entry.record;
        Event {
            cursor: Some(entry.cursor),
            server: record.server.clone(),
            grant: record.grant.clone(),
            ..Event::new(EventKind::Record(record.kind), entry.text())
        }
    }

    fn of_change(change: Change) -> Event {
        Event::new(EventKind::Change, json!({ "epoch": change.epoch }).to_string())
    }

    fn of_problems(problems: &[FileProblem]) -> Event {
        Event::new(EventKind::Problems, json!({ "problems": problems }).to_string())
    }

    fn end(why: &str) -> Event {
        Event::new(EventKind::End, json!({ "why": why }).to_string())
    }
}

impl EventFilter {
    fn admits(&self, event: &Event) -> bool {
        if event.kind == EventKind::End {
            return true;
        }
        let is_record = matches!(event.kind, EventKind::Record(_));
        let is_of = |wanted: &Option<String>, names: [Option<&str>; 2]| {
            !is_record || wanted.is_none() || names.contains(&wanted.as_deref())
        };
        let grant = event.grant.as_ref();
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && is_of(&self.server, [event.server.as_deref(), None])
            && is_of(&self.grant, [grant.map(|grant| &*grant.id), grant.map(|grant| &*grant.label)])
    }
}

#[cfg(test)]
mod tests;
