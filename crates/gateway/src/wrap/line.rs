//! Handles one line of the client as a posted message, with the headers that a client
//! over HTTP would have sent.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
};

use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sluice_bridge::Offer;
use sluice_http::headers::{EITHER_ANSWER, METHOD, NAME, REVISION};
use sluice_stdio::Line;
use sluice_wire::{
    json::{Document, Value},
    mcp::{Era, META_VERSION, header_text},
    rpc::{Id, Message},
};
use tokio::sync::oneshot;

use super::{Cancellable, Conversation};
use crate::{
    assess::Tools,
    call,
    exchange::Exchange,
    legacy_sse::{Client, Delivery, begin_following, encode_event},
    protocol_version::{self, argument_text, mirrored_target},
    receive,
    refusal::Refusal,
};

/// A request before it is handled.
struct Incoming {
    id: Id,
    is_hello: bool,
    is_endless: bool,
    is_modern: bool,
}

impl Conversation<'_> {
    /// Handles a line. Requests run concurrently; only `initialize` is waited for,
    /// because later messages belong to the session that it begins.
    pub(super) async fn handle_line(&self, line: Line) {
        let gateway = &self.wrapped.gateway.inner;
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { .. } => {
                return self.refuse(&Refusal::TooLarge(gateway.settings.bounds.bytes), None).await;
            }
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let document = match receive::parse(&gateway.settings.bounds, line) {
            Ok(document) => document,
            Err(refusal) => return self.refuse(&refusal, None).await,
        };
        let message = match Message::read(&document) {
            Ok(message) => message,
            Err(error) => {
                let id = call::readable_id(&document);
                return self.refuse(&Refusal::Request(error.to_string()), id.as_ref()).await;
            }
        };
        if let Message::Notification { method: "notifications/cancelled", params } = &message {
            let id = params.and_then(|params| params.get("requestId"));
            if let Some(id) = id.and_then(|id| Id::read(id).ok()) {
                self.under_way.cancel(&id.to_json());
            }
        }
        let (headers, is_modern) = headers(&self.client, &message);
        let exchange = self.wrapped.exchange(headers);
        match message {
            Message::Request { id, method, params } => {
                let is_hello = method == "initialize";
                let is_endless = method == "subscriptions/listen";
                if is_modern && let Err(refusal) = self.introduce(method, params).await {
                    return self.refuse(&refusal, Some(&id)).await;
                }
                let asked = Incoming { id, is_hello, is_endless, is_modern };
                self.ask(asked, exchange, document).await;
            }
            Message::Notification { method: "notifications/initialized", .. } => {
                let answer = call::answer(exchange.clone(), document).await;
                if answer.status().is_success() {
                    begin_following(&self.client, exchange);
                }
            }
            // Only requests are answered.
            _ => drop(call::answer(exchange, document).await),
        }
    }

    /// Initializes a legacy command for this client before any other request. The command
    /// is initialized only once, so the first request decides which client capabilities
    /// it sees.
    async fn introduce(&self, method: &str, params: Option<Value<'_>>) -> Result<(), Refusal> {
        let state = &self.wrapped.server.link.state;
        // A client that asks for discovery learns the command's era, unless the command
        // is presented as a modern server.
        let is_told_era = method == "server/discover" && state.offer() == Some(Offer::OwnEra);
        if is_told_era || state.only_child_era().await != Some(Era::Legacy) {
            return Ok(());
        }
        protocol_version::check_capabilities(params)?;
        if self.is_introduced.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        state.learn_era(Era::Legacy);
        // Any request opens the session at the command; listing the tools has no side
        // effects.
        let meta = params.and_then(|params| params.get("_meta")).map_or("{}", Value::raw);
        let ask = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{{"_meta":{meta}}}}}"#
        );
        let ask = receive::parse(&self.wrapped.gateway.inner.settings.bounds, ask.into_bytes())?;
        let message = Message::read(&ask).map_err(|_| Refusal::Internal)?;
        let exchange = self.wrapped.exchange(headers(&self.client, &message).0);
        drop(call::answer(exchange, ask).await);
        Ok(())
    }

    async fn refuse(&self, refusal: &Refusal, id: Option<&Id>) {
        // An error is too short to be counted.
        let _ = self.client.say(encode_event(&refusal.to_json(id))).await;
    }

    async fn ask(&self, asked: Incoming, exchange: Exchange, document: Document) {
        let Ok(room) = Arc::clone(&self.client.room).try_acquire_owned() else {
            return self
                .refuse(&Refusal::Busy("too many requests in progress"), Some(&asked.id))
                .await;
        };
        let (client, under_way) = (Arc::clone(&self.client), Arc::clone(&self.under_way));
        let Incoming { id, is_hello, is_endless, is_modern } = asked;
        // `initialize` cannot be cancelled.
        let key = (!is_hello).then(|| id.to_json());
        let own = key.clone();
        let (answered, is_answered) = oneshot::channel();
        let (noted, is_noted) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            // It must be registered before it can end.
            let _ = is_noted.await;
            let delivery = Delivery {
                client: &client,
                bounds: exchange.gateway.settings.answer_bounds(),
                id,
                is_hello,
                has_session: !is_modern,
            };
            let answer = answer(exchange, document, &delivery.id, is_modern).await;
            delivery.deliver(answer).await;
            own.and_then(|id| under_way.all().remove(&id));
            drop(room);
            let _ = answered.send(());
        });
        if let Some(id) = key {
            let one = Cancellable { task: task.abort_handle(), is_endless };
            self.under_way.all().insert(id, one);
        }
        let _ = noted.send(());
        if is_hello {
            let _ = is_answered.await;
        }
    }
}

/// Answers a request as if it had been posted.
async fn answer(
    mut exchange: Exchange,
    document: Document,
    id: &Id,
    is_modern: bool,
) -> http::Response<crate::body::ClientBody> {
    let gateway = Arc::clone(&exchange.gateway);
    let in_flight = gateway.metrics.in_flight();
    if is_modern {
        repeat_arguments(&mut exchange, &document).await;
    }
    let answered = AssertUnwindSafe(call::answer(exchange, document)).catch_unwind().await;
    drop(in_flight);
    answered.unwrap_or_else(|_| Refusal::Internal.respond(Some(id)))
}

/// The headers of a message, and whether it is of the modern era.
fn headers(client: &Client, message: &Message<'_>) -> (HeaderMap, bool) {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, EITHER_ANSWER);
    let (method, params) = match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            (*method, *params)
        }
        Message::Response { .. } | Message::Failure { .. } => ("", None),
    };
    let meta = params.and_then(|params| params.get("_meta"));
    let version = meta.and_then(|meta| meta.get(META_VERSION)).and_then(Value::as_str);
    let Some(version) = version else {
        client.complete(&mut headers);
        return (headers, false);
    };
    let target = mirrored_target(method).and_then(|name| params?.get(name)?.as_str());
    let mirrors = [
        (REVISION, Some(version.to_owned())),
        (METHOD, Some(header_text(method))),
        (NAME, target.map(header_text)),
    ];
    for (name, text) in mirrors {
        if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(name, value);
        }
    }
    (headers, true)
}

/// Adds the headers that repeat arguments, as the tool's definition asks.
async fn repeat_arguments(exchange: &mut Exchange, document: &Document) {
    let root = document.root();
    let params = root.get("params").filter(|_| {
        root.get("method").and_then(Value::as_str).is_some_and(|method| method == "tools/call")
    });
    let named = params.and_then(|params| params.get("name")).and_then(Value::as_str);
    let (Some(params), Some(tool)) = (params, named) else { return };
    let bounds = exchange.gateway.settings.answer_bounds();
    let list = Box::pin(Tools::list(&exchange.server.link, &bounds, tool)).await;
    let Some(list) = list else { return };
    for repeated in list.mirrored_arguments(tool) {
        let text = argument_text(params.get("arguments"), &repeated.argument);
        let value = text.and_then(|text| HeaderValue::try_from(header_text(&text)).ok());
        if let (Ok(name), Some(value)) = (HeaderName::try_from(&repeated.header), value) {
            exchange.headers.insert(name, value);
        }
    }
}
