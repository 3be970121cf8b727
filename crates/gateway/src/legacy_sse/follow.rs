//! Relays the server's own stream to a client of this transport, which has only one.

use std::{sync::Arc, time::Duration};

use http::header;
use sluice_http::headers::{EVENT_STREAM, SESSION};

use super::Client;
use crate::{
    answer::EventStream,
    exchange::Exchange,
    refusal::Refusal,
    session::Session,
    stream::{News, Watcher, open_stream},
};

/// Pauses before a stream that ended is opened again.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Passes on what a server says besides its answers, as long as client and
/// session are there.
pub(super) async fn follow(client: Arc<Client>, mut exchange: Exchange) {
    exchange.headers.insert(header::ACCEPT, EVENT_STREAM);
    let headers = exchange.headers.clone();
    let sealed = headers.get(SESSION).and_then(|value| value.to_str().ok());
    let own = |exchange: &Exchange| {
        Session::open(&exchange.gateway, &exchange.holder, exchange.server_name(), sealed?).ok()
    };
    let Ok(slot) = exchange.gateway.connections.acquire() else { return };
    let mut pause = FIRST_PAUSE;
    loop {
        // Its upstream session may be another by now.
        exchange.session = own(&exchange);
        let shared = Arc::new(exchange);
        match open_stream(&shared, false).await {
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
    drop(slot);
}

/// Passes a stream on to its end; the exchange as it is then, or `None` if there is
/// nobody left to hear.
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
                // The client's own stream tells it what has changed.
                let News { exchange: renewed, .. } = news?;
                exchange = Arc::clone(&renewed);
                stream.renew(renewed);
            }
            () = client.sender.closed() => return None,
        }
    }
}
