//! Following a server's own stream for a client that has only one.

use std::{sync::Arc, time::Duration};

use http::header;
use sluice_http::headers::{EVENT_STREAM, SESSION};

use super::Client;
use crate::{
    answer::EventStream,
    refusal::Refusal,
    session::Session,
    stream::{News, Watcher, opened},
    visit::Visit,
};

/// Pauses before a stream that ended is opened again.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Passes on what a server says besides its answers, as long as client and
/// session are there.
pub(super) async fn follow(client: Arc<Client>, mut visit: Visit) {
    visit.headers.insert(header::ACCEPT, EVENT_STREAM);
    let headers = visit.headers.clone();
    let sealed = headers.get(SESSION).and_then(|value| value.to_str().ok());
    let own = |visit: &Visit| {
        Session::open(&visit.gateway, &visit.holder, visit.server_name(), sealed?).ok()
    };
    let Ok(standing) = visit.gateway.standing() else { return };
    let mut pause = FIRST_PAUSE;
    loop {
        // Its upstream session may be another by now.
        visit.session = own(&visit);
        let shared = Arc::new(visit);
        match opened(&shared, false).await {
            Ok((again, stream)) => {
                let Some(renewed) = passed_on(&client, again, stream).await else {
                    break;
                };
                visit = Visit::clone(&renewed);
                visit.headers.clone_from(&headers);
            }
            Err(Refusal::MethodNotAllowed) => break,
            Err(Refusal::Session) => {
                client.ended.notify_one();
                break;
            }
            Err(_) => visit = Visit::clone(&shared),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = client.sender.closed() => break,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    drop(standing);
}

/// Passes a stream on to its end; the visit as it is then, or `None` if there is
/// nobody left to hear.
async fn passed_on(
    client: &Client,
    visit: Arc<Visit>,
    mut stream: EventStream,
) -> Option<Arc<Visit>> {
    let mut watcher = Watcher::new(Arc::clone(&visit));
    let mut visit = visit;
    loop {
        tokio::select! {
            next = stream.next() => match next {
                Some(Ok(data)) => client.pass_on(&data).await?,
                Some(Err(_)) | None => return Some(visit),
            },
            news = watcher.news() => {
                // The client's own stream tells it what has changed.
                let News { visit: renewed, .. } = news?;
                visit = Arc::clone(&renewed);
                stream.renew(renewed);
            }
            () = client.sender.closed() => return None,
        }
    }
}
