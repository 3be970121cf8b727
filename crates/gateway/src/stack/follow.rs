//! Follows the streams of all servers in the legacy era. A stream that ends or cannot be
//! opened is opened again, without affecting the others.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use sluice_http::headers::EVENT_STREAM;

use super::{
    Stack,
    event_ids::{LastEvent, Seen},
    fan_in::{FanIn, FollowerEvent, FollowerSender, StreamFormat, feed},
    server_session,
};
use crate::{
    answer::{EventStream, parse_event},
    body::ClientBody,
    exchange::{Exchange, ToolView},
    refusal::Refusal,
    session_stream::{News, Watcher, identify, open_stream},
    shares::StreamPlace,
    snapshot::ServerState,
};

/// Backoff before a stream that ended is opened again.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Opens the stream of all servers.
pub(super) fn open(stack: &Arc<Stack>, last: LastEvent) -> Result<Response<ClientBody>, Refusal> {
    let LastEvent::OfAll(last) = last else { return Err(Refusal::Internal) };
    let text = |id: &HeaderValue| id.to_str().unwrap_or_default().to_owned();
    let seen = Seen(last.iter().map(|(server, id)| (Arc::clone(server), text(id))).collect());
    let place = StreamPlace::take(&stack.gateway, &stack.holder)?;
    let mut fan_in = FanIn::new(stack, StreamFormat::Legacy(seen));
    for server in &stack.servers {
        // Each follower needs a connection of its own to the server.
        let place = StreamPlace::take_connected(&stack.gateway, &stack.holder)?;
        let (stack, server) = (Arc::clone(stack), Arc::clone(server));
        let last = last.get(&server.link.name).cloned();
        fan_in.follow(&Arc::clone(&server.link.name), |follower| async move {
            let followed = follow_server(&stack, &server, last, &follower).await;
            drop(place);
            followed
        });
    }
    Ok(feed(place, |body| async move { fan_in.run(Bytes::from_static(b":\n\n"), &body).await }))
}

/// Follows one server as long as the client listens; `None` when the client, the server
/// or the grant is gone.
async fn follow_server(
    stack: &Arc<Stack>,
    server: &Arc<ServerState>,
    mut last: Option<HeaderValue>,
    follower: &FollowerSender,
) -> Option<()> {
    let (mut pause, mut has_failed, mut view) = (FIRST_PAUSE, false, None);
    loop {
        let mut exchange = server_session::open_exchange(stack, server, None).await;
        exchange.headers.insert(header::ACCEPT, EVENT_STREAM);
        exchange.resumes_after.clone_from(&last);
        let exchange = renew_exchange(identify(exchange).ok()?)?;
        report_change(follower, &mut view, &exchange).await?;
        match open_stream(&exchange).await {
            Ok((exchange, stream)) => {
                if std::mem::take(&mut has_failed) {
                    follower.send(FollowerEvent::Changed).await?;
                }
                pause = FIRST_PAUSE;
                pass_on(follower, exchange, stream, &mut last).await?;
            }
            // The server has no such stream, so only the configuration can change what
            // the client sees.
            Err(Refusal::MethodNotAllowed) => return watch(follower, exchange, None).await,
            Err(refusal) => {
                if refusal == Refusal::Session {
                    server_session::forget(stack, server).await;
                    last = None;
                }
                has_failed = true;
            }
        }
        watch(follower, exchange, Some(pause)).await?;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The same exchange under the current configuration.
pub(super) fn renew_exchange(exchange: Exchange) -> Option<Arc<Exchange>> {
    let mut renewed = exchange.renew()?;
    renewed.headers = exchange.headers;
    Some(Arc::new(renewed))
}

/// Reports a change if the client now sees other tools than before.
pub(super) async fn report_change(
    follower: &FollowerSender,
    view: &mut Option<ToolView>,
    exchange: &Exchange,
) -> Option<()> {
    let now = exchange.view();
    if view.as_ref().is_some_and(|view| view.differs(&now)) {
        follower.send(FollowerEvent::Changed).await?;
    }
    *view = Some(now);
    Some(())
}

/// Waits for `pause`, or for ever, and reports changes of the configuration meanwhile.
pub(super) async fn watch(
    follower: &FollowerSender,
    exchange: Arc<Exchange>,
    pause: Option<Duration>,
) -> Option<()> {
    let mut watcher = Watcher::new(exchange);
    let passed = async {
        match pause {
            Some(pause) => tokio::time::sleep(pause).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(passed);
    loop {
        tokio::select! {
            () = &mut passed => return Some(()),
            news = watcher.news() => {
                if news?.is_changed {
                    follower.send(FollowerEvent::Changed).await?;
                }
            }
        }
    }
}

/// Passes on a stream to its end, and remembers the last event id.
async fn pass_on(
    follower: &FollowerSender,
    exchange: Arc<Exchange>,
    mut stream: EventStream,
    last: &mut Option<HeaderValue>,
) -> Option<()> {
    let mut watcher = Watcher::new(exchange);
    loop {
        tokio::select! {
            next = stream.next() => match next {
                Some(Ok(data)) => {
                    let Some(event) = parse_event(&data).filter(is_said) else { continue };
                    if let Some(id) = event.id.and_then(|id| HeaderValue::try_from(id).ok()) {
                        *last = Some(id);
                    }
                    follower.send(FollowerEvent::Event(data)).await?;
                }
                Some(Err(_)) | None => return Some(()),
            },
            news = watcher.news() => {
                let News { exchange, is_changed } = news?;
                stream.renew(exchange);
                if is_changed {
                    follower.send(FollowerEvent::Changed).await?;
                }
            }
        }
    }
}

/// Whether an event is more than a comment. The client's stream has comments of its own.
fn is_said(event: &sluice_http::sse::Event) -> bool {
    event.data.is_some() || event.id.is_some() || event.retry.is_some()
}
