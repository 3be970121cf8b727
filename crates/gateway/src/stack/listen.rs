//! `subscriptions/listen` for all servers of a grant: the acknowledgements are merged, and
//! the notifications are sent on one stream.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use sluice_http::headers::is_event_stream;
use sluice_http::sse::encode_message;
use sluice_wire::{
    edit::{Edits, quote},
    json::{Document, Value},
    rpc::{Id, Message},
};
use tokio::time::Instant;

use super::{
    Stack,
    fan_in::{FanIn, FollowerEvent, FollowerSender, StreamFormat, feed},
    follow::{FIRST_PAUSE, LONGEST_PAUSE, renew_exchange, report_change, watch},
    gather::PART_TIMEOUT,
    merge::merge,
    owners, server_session,
};
use crate::{
    answer::parse_event,
    body::ClientBody,
    call,
    exchange::Exchange,
    receive,
    refusal::Refusal,
    shares::StreamPlace,
    snapshot::ServerState,
    subscriptions::{LISTS, tag},
};

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The most events that are held back until all servers have acknowledged.
const MOST_EARLY: usize = 64;
/// The most resources that one client can subscribe to.
const MOST_RESOURCES: usize = 1000;

/// Opens a stream of the notifications of all servers.
pub(super) async fn listen(
    stack: &Arc<Stack>,
    document: &Document,
    id: &Id,
) -> Result<Response<ClientBody>, Refusal> {
    let params = document.root().get("params");
    let wanted = params.and_then(|params| params.get("notifications"));
    let wanted = wanted.filter(|wanted| wanted.members().is_some()).ok_or_else(|| {
        Refusal::Params(
            "`params.notifications` must be an object that says what to listen to".into(),
        )
    })?;
    let place = StreamPlace::take(&stack.gateway, &stack.holder)?;
    let filters = split_filter(stack, document, wanted).await?;
    let is_wanted = |name: &str| wanted.get(name).and_then(Value::as_bool) == Some(true);
    let methods: Vec<_> =
        LISTS.iter().filter(|(_, name)| is_wanted(name)).map(|(method, _)| *method).collect();
    let id = id.to_json();
    let own = if is_wanted("toolsListChanged") { r#"{"toolsListChanged":true}"# } else { "{}" };
    let mut fan_in = FanIn::new(stack, StreamFormat::Modern { id: id.clone(), methods });
    for (server, filter) in stack.servers.iter().zip(filters) {
        let (stack, server) = (Arc::clone(stack), Arc::clone(server));
        fan_in.follow(&Arc::clone(&server.link.name), |follower| async move {
            follow_server(&stack, &server, &filter, &follower).await
        });
    }
    let count = stack.servers.len();
    Ok(feed(place, |body| async move {
        let first = await_agreement(&mut fan_in, count, own, &id).await;
        fan_in.run(first, &body).await;
    }))
}

/// The message for each server: the client's, with only the resources that the server
/// owns.
async fn split_filter(
    stack: &Arc<Stack>,
    document: &Document,
    wanted: Value<'_>,
) -> Result<Vec<String>, Refusal> {
    let listed = wanted.get("resourceSubscriptions").filter(|list| list.items().is_some());
    let Some(listed) = listed else {
        return Ok(stack.servers.iter().map(|_| document.text().to_owned()).collect());
    };
    let uris: Vec<_> = listed.items().into_iter().flatten().filter_map(Value::as_str).collect();
    if uris.len() > MOST_RESOURCES {
        return Err(Refusal::Params(format!("at most {MOST_RESOURCES} resources can be named")));
    }
    let owners = owners::find_owners(stack, document.root().get("params"), &uris).await;
    let mut own: HashMap<Arc<str>, Vec<String>> = HashMap::new();
    for (uri, owner) in uris.into_iter().zip(owners) {
        if let Some(server) = owner {
            own.entry(Arc::clone(&server.link.name)).or_default().push(quote(uri));
        }
    }
    let filter_for = |server: &Arc<ServerState>| {
        let uris = own.get(&server.link.name).map(|uris| uris.join(",")).unwrap_or_default();
        let mut edits = Edits::new(document);
        edits.replace(listed, format!("[{uris}]"));
        edits.finish()
    };
    Ok(stack.servers.iter().map(filter_for).collect())
}

/// The first message of the stream: the merged acknowledgements. Servers that are late
/// are followed anyway.
async fn await_agreement(fan_in: &mut FanIn, count: usize, own: &str, id: &str) -> Bytes {
    let (mut waiting, mut said) = (count, vec![own.to_owned()]);
    let deadline = Instant::now() + PART_TIMEOUT;
    let mut early = Vec::new();
    while waiting > 0 && early.len() < MOST_EARLY {
        let next = tokio::time::timeout_at(deadline, fan_in.events.recv()).await;
        match next.ok().flatten() {
            Some((_, FollowerEvent::Agreed(agreed))) => {
                waiting -= 1;
                said.extend(agreed);
            }
            Some((_, FollowerEvent::Event(bytes))) => early.push(bytes),
            Some((_, FollowerEvent::Changed)) => {}
            Some((_, FollowerEvent::Over)) => waiting -= 1,
            None => break,
        }
    }
    let bounds = sluice_wire::json::Bounds::default();
    let read: Vec<_> =
        said.iter().filter_map(|text| Document::parse(&**text, &bounds).ok()).collect();
    let values: Vec<_> = read.iter().map(Document::root).collect();
    let params = format!(r#"{{"notifications":{}}}"#, merge(&values));
    let first = tag(ACKNOWLEDGED, &params, id).map(|message| encode_message(&message));
    let all: Vec<_> = first.into_iter().chain(early).collect();
    all.concat().into()
}

/// Follows one server as long as the client listens; `None` when the client, the server
/// or the grant is gone.
async fn follow_server(
    stack: &Arc<Stack>,
    server: &Arc<ServerState>,
    filter: &str,
    follower: &FollowerSender,
) -> Option<()> {
    let (mut pause, mut has_failed, mut view) = (FIRST_PAUSE, false, None);
    loop {
        let exchange = renew_exchange(server_session::open_exchange(stack, server, None).await)?;
        report_change(follower, &mut view, &exchange).await?;
        let document =
            receive::parse(&stack.gateway.settings.bounds, filter.as_bytes().to_vec()).ok()?;
        let answer = call::answer(Exchange::clone(&exchange), document).await;
        if is_event_stream(answer.headers()) {
            if std::mem::take(&mut has_failed) {
                follower.send(FollowerEvent::Changed).await?;
            }
            pause = FIRST_PAUSE;
            pass_on(stack, follower, answer.into_body()).await?;
            // Notifications are lost until the stream is open again.
            has_failed = true;
        } else {
            follower.send(FollowerEvent::Agreed(None)).await?;
            if answer.status() == StatusCode::NOT_FOUND {
                // The server sends no notifications, so only the configuration can change
                // what the client sees.
                return watch(follower, exchange, None).await;
            }
            has_failed = true;
        }
        watch(follower, exchange, Some(pause)).await?;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Passes on the notifications of one server, to the end of its stream.
async fn pass_on(stack: &Stack, follower: &FollowerSender, mut body: ClientBody) -> Option<()> {
    let bounds = stack.gateway.settings.answer_bounds();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        // INVARIANT: each piece of such a stream is one event.
        let Some(text) = parse_event(&data).and_then(|event| event.data) else { continue };
        let Ok(document) = Document::parse(text, &bounds) else { break };
        match Message::read(&document) {
            Ok(Message::Notification { method: ACKNOWLEDGED, params }) => {
                let agreed = params.and_then(|params| params.get("notifications"));
                follower
                    .send(FollowerEvent::Agreed(agreed.map(|agreed| agreed.raw().to_owned())))
                    .await?;
            }
            Ok(Message::Notification { .. }) => follower.send(FollowerEvent::Event(data)).await?,
            _ => break,
        }
    }
    Some(())
}
