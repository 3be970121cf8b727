//! `subscriptions/listen` of the modern era: clients that subscribe to the same
//! notifications share one subscription at the server.

mod feed;
mod filter;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
};

use bytes::Bytes;
use http::Response;
use sluice_http::sse::encode_message;
use sluice_policy::AccessRequest;
use sluice_wire::{
    edit::{self, Fate, quote},
    json::{Bounds, Document, LoneSurrogates, Value},
    mcp::META_SUBSCRIPTION,
    rpc::Id,
};
use tokio::sync::{broadcast, mpsc};

use crate::{
    body::{ClientBody, Cut},
    exchange::Exchange,
    link::Link,
    protocol_version,
    refusal::Refusal,
    response,
    sealed_ids::{open_task, seal_task},
    session_stream::{KEEP_ALIVE, LIST_CHANGED, News, WAITING, Watcher, pass_on},
    shares::{StreamPlace, claim_listener, claim_subscriptions},
};
use feed::{Feed, FeedEvent};

pub(crate) use filter::{Filter, LISTS};

/// The subscriptions at one server, by what they subscribe to.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    feeds: Mutex<HashMap<Filter, Weak<Feed>>>,
}

impl Hub {
    /// The feed for this subscription, started if there is none.
    fn feed(&self, link: &Arc<Link>, bounds: Bounds, filter: &Filter) -> Option<Arc<Feed>> {
        let mut feeds = self.feeds.lock().ok()?;
        let known = feeds.get(filter).and_then(Weak::upgrade);
        if let Some(feed) = known.filter(|feed| !feed.is_over()) {
            return Some(feed);
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let feed = Feed::begin(link, bounds, filter);
        feeds.insert(filter.clone(), Arc::downgrade(&feed));
        Some(feed)
    }
}

/// Opens a stream of change notifications.
pub(crate) async fn listen(
    exchange: &Arc<Exchange>,
    document: &Document,
    id: &Id,
) -> Result<Response<ClientBody>, Refusal> {
    let params = document.root().get("params");
    protocol_version::check_capabilities(params)?;
    let filter = read_filter(exchange, params)?;
    let subscriptions = claim_subscriptions(exchange, filter.names())?;
    let place = StreamPlace::take(&exchange.gateway, &exchange.holder)?;
    let child = claim_listener(exchange)?;
    let (feed, heard, acknowledged) = if exchange.server.link.state.is_builtin() {
        (None, None, format!(r#"{{"notifications":{}}}"#, filter.to_json()))
    } else {
        let link = &exchange.server.link;
        let bounds = exchange.gateway.settings.answer_bounds();
        let feed = link.state.hub.feed(link, bounds, &filter).ok_or(Refusal::Internal)?;
        let heard = feed.listen();
        let acknowledged = tokio::time::timeout(link.timeout, feed.wait_acknowledged())
            .await
            .map_err(|_| Refusal::timeout())??;
        (Some(feed), Some(heard), acknowledged)
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let id = id.to_json();
    let acknowledged =
        acknowledgement(exchange, params, &acknowledged).ok_or_else(bad_subscription)?;
    let first = tag("notifications/subscriptions/acknowledged", &acknowledged, &id)
        .ok_or_else(bad_subscription)?;
    // The headers of the request are no longer needed, and there may be many streams.
    let exchange = Arc::new(exchange.renew().ok_or(Refusal::Internal)?);
    let listener =
        Listener { id, feed, heard, watcher: Watcher::new(Arc::clone(&exchange)), exchange };
    tokio::spawn(async move {
        if sender.send(Ok(encode_message(&first))).await.is_ok() {
            listener.run(&sender).await;
        }
        drop((place, child, subscriptions));
    });
    Ok(response::event_stream(ClientBody::standing(receiver)))
}

fn bad_subscription() -> Refusal {
    Refusal::bad_gateway("the server's subscription cannot be followed")
}

/// The subscription that a client asks for, without what the policy denies.
fn read_filter(exchange: &Exchange, params: Option<Value<'_>>) -> Result<Filter, Refusal> {
    let wanted = params.and_then(|params| params.get("notifications"));
    let wanted = wanted.ok_or_else(|| {
        Refusal::Params("`params.notifications` must say what to listen to".into())
    })?;
    if wanted.members().is_none() {
        return Err(Refusal::Params("`params.notifications` must be an object".into()));
    }
    // The server's own ids of those tasks that belong to this grant.
    let own = |ids: Vec<&str>| ids.into_iter().filter_map(|id| open_task(exchange, id)).collect();
    Ok(Filter::read(exchange, wanted, own))
}

/// The server's acknowledgement for this client: task ids are those that the client used,
/// and notifications that the policy denies are removed.
fn acknowledgement(exchange: &Exchange, params: Option<Value<'_>>, said: &str) -> Option<String> {
    let asked = params?.get("notifications")?.get("taskIds").and_then(Value::items);
    let asked = asked.into_iter().flatten().filter_map(Value::as_str);
    let known: BTreeMap<_, _> =
        asked.filter_map(|id| open_task(exchange, id).map(|own| (own, id))).collect();
    let tasks = |ids: Vec<&str>| {
        // Each id once, even if the server repeats it.
        let said: HashSet<_> = ids.into_iter().collect();
        let told = known.iter().filter(|(own, _)| said.contains(own.as_str()));
        told.map(|(_, id)| (*id).to_owned()).collect()
    };
    let document = Document::parse(said, &exchange.gateway.settings.answer_bounds()).ok()?;
    let told = |key: &str, value: Value<'_>| match key {
        "notifications" if value.members().is_some() => {
            Fate::Become(Filter::read(exchange, value, tasks).to_json())
        }
        _ => Fate::Keep,
    };
    Some(edit::object(document.root(), told, &[]))
}

/// One client's stream.
struct Listener {
    /// The id of its request, as JSON.
    id: String,
    /// Held so that the feed continues.
    feed: Option<Arc<Feed>>,
    heard: Option<broadcast::Receiver<FeedEvent>>,
    watcher: Watcher,
    exchange: Arc<Exchange>,
}

impl Listener {
    async fn run(mut self, sender: &mpsc::Sender<Result<Bytes, Cut>>) {
        let unread = self.exchange.gateway.settings.times.unread;
        loop {
            let heard = async {
                match &mut self.heard {
                    Some(heard) => heard.recv().await,
                    None => std::future::pending().await,
                }
            };
            let send = tokio::select! {
                heard = heard => match heard {
                    Ok(FeedEvent::Notification { method, params }) => self.news(&method, &params).map(Ok),
                    Ok(FeedEvent::End) => {
                        let end = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete","_meta":{{"{META_SUBSCRIPTION}":{}}}}}}}"#, self.id, self.id);
                        let _ = sender.send(Ok(encode_message(&end))).await;
                        break;
                    }
                    // The feed broke off, or this client read too slowly and missed
                    // events: it must subscribe again.
                    Err(_) => Some(Err(Cut)),
                },
                news = self.watcher.news() => match news {
                    Some(News { exchange, is_changed }) => {
                        self.exchange = exchange;
                        is_changed.then(|| self.tag(LIST_CHANGED, "{}")).flatten().map(Ok)
                    }
                    None => break,
                },
                () = tokio::time::sleep(KEEP_ALIVE) => Some(Ok(Bytes::from_static(b":\n\n"))),
                () = sender.closed() => break,
            };
            if !pass_on(sender, send, unread).await {
                break;
            }
        }
        drop(self.feed);
    }

    /// A notification as this client may see it, if at all.
    fn news(&self, method: &str, params: &str) -> Option<Bytes> {
        let bounds = self.exchange.gateway.settings.answer_bounds();
        let document = Document::parse(params, &bounds).ok()?;
        let named = |name: &str| document.root().get(name).and_then(Value::as_str);
        match method {
            "notifications/resources/updated" => {
                let uri = named("uri")?;
                self.exchange.lets_pass(AccessRequest::Resource(uri)).then_some(())?;
            }
            "notifications/tasks" | "notifications/tasks/status" => {
                let (holder, id) = (self.exchange.holder.id(), named("taskId")?);
                self.exchange.server.link.state.tools.is_task_of(holder, id).then_some(())?;
                let sealed = quote(&seal_task(&self.exchange, id).ok()?);
                let own = |key: &str, _| match key {
                    "taskId" => Fate::Become(sealed.clone()),
                    _ => Fate::Keep,
                };
                return self.tag(method, &edit::object(document.root(), own, &[]));
            }
            // These belong to one request, but many clients share the subscription.
            "notifications/progress" | "notifications/message" | "notifications/cancelled" => {
                return None;
            }
            _ => {}
        }
        self.tag(method, params)
    }

    fn tag(&self, method: &str, params: &str) -> Option<Bytes> {
        tag(method, params, &self.id).map(|message| encode_message(&message))
    }
}

/// Adds to a notification the subscription that it belongs to.
pub(crate) fn tag(method: &str, params: &str, id: &str) -> Option<String> {
    let document = Document::parse(
        params,
        &Bounds {
            bytes: usize::MAX,
            string: usize::MAX,
            lone_surrogates: LoneSurrogates::Replace,
            ..Default::default()
        },
    )
    .ok()?;
    let params = document.root();
    let meta = match params.get("_meta").filter(|meta| meta.members().is_some()) {
        Some(meta) => {
            let others =
                |key: &str, _| if key == META_SUBSCRIPTION { Fate::Drop } else { Fate::Keep };
            edit::object(meta, others, &[(META_SUBSCRIPTION, id.to_owned())])
        }
        None => format!("{{{}:{id}}}", quote(META_SUBSCRIPTION)),
    };
    let others = |key: &str, _| if key == "_meta" { Fate::Drop } else { Fate::Keep };
    let params = edit::object(params, others, &[("_meta", meta)]);
    Some(format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, quote(method)))
}
