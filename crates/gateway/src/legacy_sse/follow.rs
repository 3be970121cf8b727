//! Relays the server's own stream to an HTTP+SSE client, which has a single stream.

use std::{sync::Arc, time::Duration};

use http::header;
use sluice_http::headers::{EVENT_STREAM, SESSION};

use super::Client;
use crate::{
    answer::EventStream,
    exchange::Exchange,
    refusal::Refusal,
    session::Session,
    session_stream::{News, Watcher, open_stream},
    shares::StreamPlace,
};

/// Backoff before a stream that ended is opened again.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Passes on the server's notifications and requests until the client or the session is
/// gone.
pub(super) async fn follow(client: Arc<Client>, mut exchange: Exchange) {
    exchange.headers.insert(header::ACCEPT, EVENT_STREAM);
    let headers = exchange.headers.clone();
    let sealed = headers.get(SESSION).and_then(|value| value.to_str().ok());
    let own = |exchange: &Exchange| {
        Session::open(&exchange.gateway, &exchange.holder, exchange.server_name(), sealed?).ok()
    };
    let Ok(place) = StreamPlace::take_connected(&exchange.gateway, &exchange.holder) else {
        return;
    };
    let mut pause = FIRST_PAUSE;
    loop {
        // The upstream session may have been re-established under another id.
        exchange.session = own(&exchange);
        let shared = Arc::new(exchange);
        match open_stream(&shared).await {
            Ok((again, stream)) => {
                let Some(renewed) = pass_stream_on(&client, again, stream).await else {
                    break;
                };
                exchange = Exchange::clone(&renewed);
                exchange.headers.clone_from(&headers);
            }
            Err(Refusal::MethodNotAllowed) => break,
            Err(Refusal::Session) => {
                client.ended.notify_one();
                break;
            }
            Err(_) => exchange = Exchange::clone(&shared),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = client.sender.closed() => break,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    drop(place);
}

/// Passes on a stream to its end; returns the current exchange, or `None` if the client
/// is gone.
async fn pass_stream_on(
    client: &Client,
    exchange: Arc<Exchange>,
    mut stream: EventStream,
) -> Option<Arc<Exchange>> {
    let mut watcher = Watcher::new(Arc::clone(&exchange));
    let mut exchange = exchange;
    loop {
        tokio::select! {
            next = stream.next() => match next {
                Some(Ok(data)) => client.pass_on(&data).await?,
                Some(Err(_)) | None => return Some(exchange),
            },
            news = watcher.news() => {
                // The client is notified of changes elsewhere, on its own stream.
                let News { exchange: renewed, .. } = news?;
                exchange = Arc::clone(&renewed);
                stream.renew(renewed);
            }
            () = client.sender.closed() => return None,
        }
    }
}
