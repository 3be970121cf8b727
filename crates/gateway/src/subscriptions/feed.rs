//! One upstream subscription, shared by the clients that asked for the same.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use sluice_bridge::Caller;
use sluice_http::{
    AnswerBody,
    headers::{REVISION, is_event_stream},
    sse::{Decoder, Event},
};
use sluice_wire::{
    json::{Bounds, Document},
    mcp::{Era, Revision},
    rpc::{Message, resembles_message},
};
use tokio::sync::{broadcast, watch};

use super::Filter;
use crate::{
    judge::Outgoing, link::Link, list_changes::ListChanges, refusal::Refusal, reserve::Permitted,
    send::mirror,
};

/// Events that a slow client may be behind before its stream is cut.
const BEHIND: usize = 64;

/// An event of a subscription.
#[derive(Debug, Clone)]
pub(super) enum FeedEvent {
    Notification {
        method: Arc<str>,
        params: Arc<str>,
    },
    /// The server has ended the subscription properly.
    End,
}

/// A subscription that lasts as long as it is held.
#[derive(Debug)]
pub(super) struct Feed {
    sender: broadcast::Sender<FeedEvent>,
    /// The server's acknowledgement or refusal, once it has arrived.
    begun: watch::Receiver<Option<Result<Arc<str>, Refusal>>>,
    is_over: Arc<AtomicBool>,
}

impl Feed {
    /// Subscribes at a server.
    pub(super) fn begin(link: &Arc<Link>, bounds: Bounds, filter: &Filter) -> Arc<Feed> {
        let (sender, _) = broadcast::channel(BEHIND);
        let (begins, begun) = watch::channel(None);
        let is_over = Arc::new(AtomicBool::new(false));
        let task = Task {
            link: Arc::clone(link),
            bounds,
            sender: sender.clone(),
            begins,
            acknowledged: OnceLock::new(),
        };
        let (filter, over) = (filter.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            task.run(&filter).await;
            over.store(true, Ordering::Relaxed);
        });
        Arc::new(Feed { sender, begun, is_over })
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<FeedEvent> {
        self.sender.subscribe()
    }

    /// Waits for the server's acknowledgement.
    pub(super) async fn wait_acknowledged(&self) -> Result<String, Refusal> {
        let mut begun = self.begun.clone();
        let said = begun.wait_for(Option::is_some).await.map_err(|_| super::bad_subscription())?;
        match &*said {
            Some(Ok(params)) => Ok(params.to_string()),
            Some(Err(refusal)) => Err(refusal.clone()),
            None => Err(super::bad_subscription()),
        }
    }
}

struct Task {
    link: Arc<Link>,
    bounds: Bounds,
    sender: broadcast::Sender<FeedEvent>,
    begins: watch::Sender<Option<Result<Arc<str>, Refusal>>>,
    acknowledged: OnceLock<()>,
}

impl Task {
    async fn run(self, filter: &Filter) {
        let followed = tokio::select! {
                    followed = self.follow(filter) => followed,
        // No listener is left. Callers that wait for the beginning are listeners already.
                    () = self.sender.closed() => return,
                };
        if let Err(refusal) = followed {
            let why = format!("{refusal:?}");
            let why = self.link.without_secrets(&why);
            tracing::warn!(server = &*self.link.name, %why, "a subscription ended");
            self.begins.send_if_modified(|begun| {
                let is_first = begun.is_none();
                if is_first {
                    *begun = Some(Err(refusal));
                }
                is_first
            });
        }
    }

    async fn follow(&self, filter: &Filter) -> Result<(), Refusal> {
        // The subscription is shared, so it belongs to no single caller.
        let caller = || Caller { key: "listeners".into(), bounds: self.bounds, rounds: None };
        let permitted = Permitted::subscribe(filter);
        let sending = self.link.send(Era::Modern, headers(permitted.request()), &permitted, caller);
        let sent = tokio::time::timeout(self.link.timeout, sending).await;
        let answer = sent
            .map_err(|_| Refusal::timeout())?
            .map_err(|_| Refusal::bad_gateway("the server cannot be reached"))?;
        let is_stream = is_event_stream(answer.headers());
        if answer.status() == StatusCode::NOT_FOUND || (answer.status().is_success() && !is_stream)
        {
            return Err(Refusal::UnknownMethod {
                method: "subscriptions/listen".into(),
                is_modern: true,
            });
        }
        if answer.status() != StatusCode::OK {
            return Err(Refusal::from_status(answer.status()));
        }
        self.read(answer.into_body()).await
    }

    async fn read(&self, mut body: AnswerBody) -> Result<(), Refusal> {
        let mut decoder = Decoder::new(self.bounds.bytes);
        let mut changes = ListChanges::default();
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                due = std::future::poll_fn(|context| changes.poll_due(context)) => {
                    self.tell(due);
                    continue;
                }
            };
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|_| super::bad_subscription())?.into_data() else {
                continue;
            };
            let mut events = Vec::new();
            decoder
                .push(&data, |event| events.push(event))
                .map_err(|_| super::bad_subscription())?;
            for message in events.into_iter().filter_map(Event::into_message) {
                if self.take(&mut changes, &message)? {
                    return Ok(());
                }
            }
        }
        Err(super::bad_subscription())
    }

    /// Handles the text of one event; returns whether it was the last.
    fn take(&self, changes: &mut ListChanges<FeedEvent>, text: &str) -> Result<bool, Refusal> {
        let unreadable =
            || if resembles_message(text) { Err(super::bad_subscription()) } else { Ok(false) };
        let Ok(document) = Document::parse(text, &self.bounds) else { return unreadable() };
        let Ok(message) = Message::read(&document) else { return unreadable() };
        match message {
            Message::Notification { method, params } => {
                let params: Arc<str> = params.map_or("{}", |params| params.raw()).into();
                self.news(changes, method, params);
                Ok(false)
            }
            Message::Response { .. } => {
                while let Some(held) = changes.flush() {
                    self.tell(held);
                }
                let _ = self.sender.send(FeedEvent::End);
                Ok(true)
            }
            Message::Request { .. } | Message::Failure { .. } => Err(super::bad_subscription()),
        }
    }

    fn news(&self, changes: &mut ListChanges<FeedEvent>, method: &str, params: Arc<str>) {
        if method == "notifications/subscriptions/acknowledged" {
            if self.acknowledged.set(()).is_ok() {
                self.begins.send_replace(Some(Ok(params)));
            }
            return;
        }
        if method == "notifications/tools/list_changed" {
            self.link.state.tools.mark_stale();
        }
        let notification = FeedEvent::Notification { method: method.into(), params };
        if let Some(notification) = changes.admit(method, notification) {
            self.tell(notification);
        }
    }

    fn tell(&self, event: FeedEvent) {
        // There may be no receivers at the moment.
        let _ = self.sender.send(event);
    }
}

/// The headers of the request, without the server's credential, which its link adds.
fn headers(request: &Outgoing) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (header::CONTENT_TYPE, "application/json"),
        (header::ACCEPT, "application/json, text/event-stream"),
        (REVISION, Revision::V2026_07_28.name()),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some((method, target)) = &request.mirrors {
        mirror(&mut headers, method, target.as_deref());
    }
    headers
}
