//! One reader of events: first from the log, where it resumes, then with all others.

use std::sync::Arc;

use sluice_store::{Cursor, Filter, StoreError};
use tokio::sync::broadcast::{
    Receiver,
    error::{RecvError, TryRecvError},
};

use super::{Event, EventFilter, EventKind, Hub, PAGE, readers::ReaderPlace};

/// A reader of events.
pub(crate) struct EventReader {
    hub: Arc<Hub>,
    filter: EventFilter,
    /// Everything up to here was read.
    after: Cursor,
    /// `None` while it reads the log.
    receiver: Option<Receiver<Arc<Event>>>,
    stage: Stage,
    _place: ReaderPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was read.
    Begin,
    /// Records of the log are read. With a receiver, they are the last ones before its events.
    Log,
    Live,
    Ended,
}

impl EventReader {
    pub(super) fn follow(
        hub: Arc<Hub>,
        filter: EventFilter,
        place: ReaderPlace,
        receiver: Receiver<Arc<Event>>,
        after: Cursor,
    ) -> EventReader {
        let receiver = Some(receiver);
        EventReader { hub, filter, after, receiver, stage: Stage::Begin, _place: place }
    }

    pub(super) fn resume(
        hub: Arc<Hub>,
        filter: EventFilter,
        place: ReaderPlace,
        after: Cursor,
    ) -> EventReader {
        EventReader { hub, filter, after, receiver: None, stage: Stage::Begin, _place: place }
    }

    /// The next events, at least one; `None` after the last one. If it is cancelled, nothing is
    /// lost.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Arc<Event>>>, StoreError> {
        loop {
            let events = match self.stage {
                Stage::Begin => self.begin(),
                Stage::Log => self.read_log().await?,
                Stage::Live => self.receive().await,
                Stage::Ended => return Ok(None),
            };
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
    }

    /// The state when reading begins. Without records to catch up on, it has the place to resume
    /// from.
    fn begin(&mut self) -> Vec<Arc<Event>> {
        let is_live = self.receiver.is_some();
        self.stage = if is_live { Stage::Live } else { Stage::Log };
        let cursor = is_live.then_some(self.after);
        let state = self.hub.state().map(|event| Event { cursor, ..event });
        let wanted = state.into_iter().filter(|event| self.filter.admits(event));
        wanted.map(Arc::new).collect()
    }

    /// Reads records from the log. At its end it joins the others, and reads what came before that.
    async fn read_log(&mut self) -> Result<Vec<Arc<Event>>, StoreError> {
        let EventFilter { server, grant, .. } = self.filter.clone();
        let filter = Filter { after: Some(self.after), server, grant, ..Filter::default() };
        let page = self.hub.store.page(&filter, PAGE).await?;
        if page.next.is_none() && self.receiver.is_none() {
            // Records may have come before that, and are read next.
            let (receiver, _) = self.hub.join().await?;
            self.receiver = Some(receiver);
            return Ok(Vec::new());
        }
        if page.next.is_none() {
            self.stage = Stage::Live;
        }
        let events: Vec<_> = page.entries.iter().map(Event::of_record).map(Arc::new).collect();
        self.after = page.entries.last().map_or(self.after, |last| last.cursor.max(self.after));
        Ok(events.into_iter().filter(|event| self.filter.admits(event)).collect())
    }

    /// Receives an event, and those that have come since.
    async fn receive(&mut self) -> Vec<Arc<Event>> {
        let Some(receiver) = &mut self.receiver else {
            self.stage = Stage::Ended;
            return Vec::new();
        };
        let slow = || Arc::new(Event::end("this reader is too slow: read on with `Last-Event-ID`"));
        let mut events = Vec::new();
        match receiver.recv().await {
            Ok(event) => events.push(event),
            Err(RecvError::Lagged(_)) => events.push(slow()),
            Err(RecvError::Closed) => self.stage = Stage::Ended,
        }
        while events.len() < PAGE {
            match receiver.try_recv() {
                Ok(event) => events.push(event),
                Err(TryRecvError::Lagged(_)) => events.push(slow()),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        self.keep_wanted(events)
    }

    /// The events that were not read from the log, up to the last one.
    fn keep_wanted(&mut self, mut events: Vec<Arc<Event>>) -> Vec<Arc<Event>> {
        let is_end = |event: &Arc<Event>| event.kind == EventKind::End;
        if let Some(last) = events.iter().position(is_end) {
            events.truncate(last + 1);
            self.stage = Stage::Ended;
        }
        events.retain(|event| {
            event.cursor.is_none_or(|cursor| cursor > self.after) && self.filter.admits(event)
        });
        events
    }
}
