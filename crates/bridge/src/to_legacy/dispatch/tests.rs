//! How long a server request waits for a call.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use http::HeaderMap;
use sluice_builtin::{Builtin, Call, Calling, Endpoint, Identity, UnknownTool};
use sluice_upstream::Upstream;
use sluice_wire::json::{Bounds, Document};

use super::{CallReceiver, Dispatcher, PICKUP_TIMEOUT, Session};
use crate::{Link, message::Declared};

/// A server without tools.
struct Bare;

impl Builtin for Bare {
    fn identity(&self) -> Identity<'_> {
        Identity { name: "bare", title: "Bare", version: "1", instructions: "" }
    }

    fn tools(&self) -> &'static str {
        "[]"
    }

    fn call<'a>(&'a self, _: Call<'a>) -> Calling<'a> {
        Box::pin(async { Err(UnknownTool) })
    }
}

pub(in crate::to_legacy) async fn session() -> Arc<Session> {
    let upstream = Upstream::Builtin(Endpoint::new(Arc::new(Bare)));
    let link = Arc::new(Link::new(upstream, Arc::default()));
    let mut headers = HeaderMap::new();
    headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
    headers.insert("content-type", "application/json".parse().unwrap());
    let begun = Session::begin(&link, &headers, &Declared::gateway(), Bounds::default()).await;
    Arc::new(begun.unwrap())
}

fn question(id: u32) -> Document {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#);
    Document::parse(text, &Bounds::default()).unwrap()
}

/// Assigns a request to a call that stops listening before it picks the request up.
async fn hand_and_take_back(
    session: &Arc<Session>,
    receiver: &mut CallReceiver,
    request: Document,
) {
    let mut listening = pin!(receiver.next());
    poll_fn(|context| {
        assert!(Pin::as_mut(&mut listening).poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    assert!(Dispatcher::offer(session, request));
    assert_eq!(session.dispatcher.waiting(), 0, "it was handed out");
}

impl Dispatcher {
    fn waiting(&self) -> usize {
        self.state().waiting.len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_taken_back_from_a_call_still_times_out() {
    let session = session().await;
    let mut receiver = Dispatcher::listen(&session, true, None);
    hand_and_take_back(&session, &mut receiver, question(1)).await;
    assert_eq!(session.dispatcher.waiting(), 1);
    tokio::time::sleep(PICKUP_TIMEOUT + Duration::from_secs(1)).await;
    assert_eq!(session.dispatcher.waiting(), 0);
}

/// The timeout of a request counts from its arrival.
#[tokio::test(start_paused = true)]
async fn a_request_taken_back_from_a_call_keeps_its_timeout() {
    let session = session().await;
    let mut receiver = Dispatcher::listen(&session, true, None);
    {
        let mut listening = pin!(receiver.next());
        poll_fn(|context| {
            assert!(Pin::as_mut(&mut listening).poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(Dispatcher::offer(&session, question(1)));
        tokio::time::sleep(PICKUP_TIMEOUT / 2).await;
        assert!(Dispatcher::offer(&session, question(2)));
        // The timeout task now waits for the second request.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(session.dispatcher.waiting(), 1);
    }
    assert_eq!(session.dispatcher.waiting(), 2);
    tokio::time::sleep(PICKUP_TIMEOUT / 2).await;
    assert_eq!(session.dispatcher.waiting(), 1, "the first was refused");
    tokio::time::sleep(PICKUP_TIMEOUT / 2).await;
    assert_eq!(session.dispatcher.waiting(), 0);
}
