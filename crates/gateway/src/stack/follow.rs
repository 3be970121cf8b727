//! Following the streams of all servers in the legacy era. One that ends, or
//! cannot be had, is opened again; the others do not notice.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use sluice_http::headers::{EVENT_STREAM, LAST_EVENT};

use super::{
    Stack,
    event_ids::{LastEvent, Seen},
    pump::{Form, Pump, Said, Voice, fed},
    visit,
};
use crate::{
    answer::{EventStream, event_in},
    body::ClientBody,
    refusal::Refusal,
    snapshot::ServerState,
    stream::{News, Watcher, opened, settled},
    visit::{View, Visit},
};

/// Pauses before a stream that ended is opened again.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Opens the stream of all servers.
pub(super) fn open(stack: &Arc<Stack>, last: LastEvent) -> Result<Response<ClientBody>, Refusal> {
    let LastEvent::OfAll(last) = last else { return Err(Refusal::Internal) };
    let text = |id: &HeaderValue| id.to_str().unwrap_or_default().to_owned();
    let seen = Seen(last.iter().map(|(server, id)| (Arc::clone(server), text(id))).collect());
    let mut pump = Pump::new(stack, Form::Legacy(seen));
    for server in &stack.servers {
        // Each is a connection of its own to the server.
        let place = stack.gateway.standing()?;
        let (stack, server) = (Arc::clone(stack), Arc::clone(server));
        let last = last.get(&server.link.name).cloned();
        pump.follow(&Arc::clone(&server.link.name), |voice| async move {
            let followed = followed(&stack, &server, last, &voice).await;
            drop(place);
            followed
        });
    }
    Ok(fed(|body| async move { pump.run(Bytes::from_static(b":\n\n"), &body).await }))
}

/// Follows one server for as long as there is somebody to hear; `None` when it is
/// over.
async fn followed(
    stack: &Arc<Stack>,
    server: &Arc<ServerState>,
    mut last: Option<HeaderValue>,
    voice: &Voice,
) -> Option<()> {
    let (mut pause, mut has_failed, mut view) = (FIRST_PAUSE, false, None);
    loop {
        let mut visit = visit::at(stack, server, None).await;
        visit.headers.insert(header::ACCEPT, EVENT_STREAM);
        let replays = last.is_some();
        visit.headers.extend(last.clone().map(|last| (LAST_EVENT, last)));
        let visit = renewed(settled(visit).ok()?)?;
        looked(voice, &mut view, &visit).await?;
        match opened(&visit, replays).await {
            Ok((visit, stream)) => {
                if std::mem::take(&mut has_failed) {
                    voice.say(Said::Changed).await?;
                }
                pause = FIRST_PAUSE;
                passed_on(voice, visit, stream, &mut last).await?;
            }
            // It has no such stream; only what is in force here can change.
            Err(Refusal::MethodNotAllowed) => return watched(voice, visit, None).await,
            Err(refusal) => {
                if refusal == Refusal::Session {
                    visit::forget(stack, server).await;
                    last = None;
                }
                has_failed = true;
            }
        }
        watched(voice, visit, Some(pause)).await?;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The same visit under what is in force now.
pub(super) fn renewed(visit: Visit) -> Option<Arc<Visit>> {
    let mut renewed = visit.renewed()?;
    renewed.headers = visit.headers;
    Some(Arc::new(renewed))
}

/// Says so if the client sees something else than it did before.
pub(super) async fn looked(voice: &Voice, view: &mut Option<View>, visit: &Visit) -> Option<()> {
    let now = visit.view();
    if view.as_ref().is_some_and(|view| view.differs(&now)) {
        voice.say(Said::Changed).await?;
    }
    *view = Some(now);
    Some(())
}

/// Waits, for a while or for ever, and says when what is in force changes.
pub(super) async fn watched(
    voice: &Voice,
    visit: Arc<Visit>,
    pause: Option<Duration>,
) -> Option<()> {
    let mut watcher = Watcher::new(visit);
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
                    voice.say(Said::Changed).await?;
                }
            }
        }
    }
}

/// Passes a stream on to its end, and notes the last event that can be named.
async fn passed_on(
    voice: &Voice,
    visit: Arc<Visit>,
    mut stream: EventStream,
    last: &mut Option<HeaderValue>,
) -> Option<()> {
    let mut watcher = Watcher::new(visit);
    loop {
        tokio::select! {
            next = stream.next() => match next {
                Some(Ok(data)) => {
                    let Some(event) = event_in(&data).filter(is_said) else { continue };
                    if let Some(id) = event.id.and_then(|id| HeaderValue::try_from(id).ok()) {
                        *last = Some(id);
                    }
                    voice.say(Said::Event(data)).await?;
                }
                Some(Err(_)) | None => return Some(()),
            },
            news = watcher.news() => {
                let News { visit, is_changed } = news?;
                stream.renew(visit);
                if is_changed {
                    voice.say(Said::Changed).await?;
                }
            }
        }
    }
}

/// Whether an event is more than a comment, of which the stream has its own.
fn is_said(event: &sluice_http::sse::Event) -> bool {
    event.data.is_some() || event.id.is_some() || event.retry.is_some()
}
