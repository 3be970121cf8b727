//! The stream of a legacy session, on top of a subscription at a modern server.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use sluice_http::{
    SendError,
    headers::{METHOD, REVISION, is_event_stream},
};
use sluice_wire::{edit::quote, json::Document, rpc::Message};

use super::{ToModern, memory::Wishes};
use crate::{
    Caller,
    exchange::{Reader, post, set},
    message::{Declared, MODERN, modern_request, tag_subscription},
    response::{Answer, ResponseWriter},
};

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// One stream of a client.
struct Listening {
    bridge: Arc<ToModern>,
    headers: HeaderMap,
    declared: Declared,
    caller: Caller,
}

/// Why a subscription could not be made.
enum Refused {
    Send(SendError),
    Status(StatusCode),
}

impl ToModern {
    /// Opens the stream of a session.
    pub(super) async fn listen(
        self: &Arc<Self>,
        headers: HeaderMap,
        declared: Declared,
        caller: Caller,
    ) -> Answer {
        let (output, begun) = ResponseWriter::new();
        let listening = Listening { bridge: Arc::clone(self), headers, declared, caller };
        tokio::spawn(listening.run(output));
        begun.answer().await
    }
}

impl Listening {
    async fn run(self, mut output: ResponseWriter) {
        let mut wishes = self.bridge.memory.wishes(&self.caller.key);
        let mut reader = match self.subscribe(&mut wishes).await {
            Ok(reader) => reader,
            Err(Refused::Send(error)) => return output.fail(error),
            Err(Refused::Status(status)) => return output.finish_empty(status),
        };
        output.begin();
        loop {
            tokio::select! {
                next = reader.next() => match next {
                    Ok(Some(document)) if self.forward_news(&document, &mut output).await => {}
                    // When this stream ends, the client opens another.
                    _ => return,
                },
                changed = wishes.changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // The old subscription is used until the new one is acknowledged.
                    match self.subscribe(&mut wishes).await {
                        Ok(next) => reader = next,
                        Err(_) => return,
                    }
                }
                () = output.wait_for_disconnect() => return,
            }
        }
    }

    /// Subscribes to everything that the client wants to be notified of now.
    async fn subscribe(&self, wishes: &mut Wishes) -> Result<Reader, Refused> {
        let change = *wishes.changes.borrow_and_update();
        let uris = self.bridge.memory.subscriptions(&self.caller.key);
        let uris: Vec<_> = uris.iter().map(|uri| quote(uri)).collect();
        let wish = format!(
            r#"{{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[{}]}}"#,
            uris.join(",")
        );
        let bounds = self.caller.bounds;
        let ask = r#"{"jsonrpc":"2.0","method":"subscriptions/listen"}"#;
        let ask = Document::parse(ask, &bounds)
            .map_err(|_| Refused::Status(StatusCode::INTERNAL_SERVER_ERROR))?;
        let added = [("notifications", wish)];
        let body = modern_request(ask.root(), "\"stream\"", &self.declared, None, &added);
        let mut headers = self.headers.clone();
        set(&mut headers, REVISION, MODERN.name());
        set(&mut headers, METHOD, "subscriptions/listen");
        let answer = self.bridge.link.upstream.send(post(headers, body)).await;
        let answer = answer.map_err(Refused::Send)?;
        let status = answer.status();
        if !status.is_success() || !is_event_stream(answer.headers()) {
            let has_none = status.is_success() || status == StatusCode::NOT_FOUND;
            let status = if has_none { StatusCode::METHOD_NOT_ALLOWED } else { status };
            return Err(Refused::Status(status));
        }
        let mut reader = Reader::new(answer, bounds);
        // The first message acknowledges the subscription.
        while let Ok(Some(document)) = reader.next().await {
            match Message::read(&document) {
                Ok(Message::Notification { method: ACKNOWLEDGED, .. }) => {
                    wishes.acknowledge(change);
                    return Ok(reader);
                }
                Ok(Message::Failure { .. } | Message::Response { .. }) | Err(_) => break,
                Ok(_) => {}
            }
        }
        Err(Refused::Status(StatusCode::METHOD_NOT_ALLOWED))
    }

    /// Passes on a notification; returns whether the subscription continues.
    async fn forward_news(&self, document: &Document, output: &mut ResponseWriter) -> bool {
        match Message::read(document) {
            Ok(Message::Notification { method: ACKNOWLEDGED, .. }) => true,
            Ok(Message::Notification { .. }) => {
                output.say(&tag_subscription(document.root(), None)).await;
                true
            }
            Ok(Message::Request { .. }) => {
                // The server cannot be told, and the client loses nothing.
                tracing::warn!("a modern server made a request on a stream, which is ignored");
                true
            }
            _ => false,
        }
    }
}
