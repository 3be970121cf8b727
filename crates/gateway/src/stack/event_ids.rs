//! SSE event ids (`Last-Event-ID`) of merged streams. Each contains the server's name,
//! because two servers may use the same ids, and is sealed to its grant and session.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Response};
use http_body_util::BodyExt as _;
use sluice_http::headers::is_event_stream;
use sluice_http::sse::Event;

use super::Stack;
use crate::{
    answer::parse_event, body::ClientBody, gateway::Inner, grants::Holder, seal::Purpose,
    sealed_ids::LONGEST_EVENT_ID,
};

/// Seals and opens the event ids of one session.
#[derive(Debug, Clone)]
pub(super) struct EventIds {
    gateway: Arc<Inner>,
    holder: Arc<Holder>,
    /// Our id of the session; empty without one.
    session: String,
}

impl EventIds {
    pub(super) fn of(stack: &Stack) -> EventIds {
        let session = stack.session.as_ref().map(|session| session.id.to_string());
        EventIds {
            gateway: Arc::clone(&stack.gateway),
            holder: Arc::clone(&stack.holder),
            session: session.unwrap_or_default(),
        }
    }

    /// `None` if the id becomes too long: the client then resumes from an earlier event.
    fn write<'a>(
        &self,
        kind: &str,
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<String> {
        let mut text = kind.to_owned();
        for (server, id) in pairs {
            text.extend(["\0", server, "\0", id]);
        }
        let parts = [self.holder.id(), &self.session, &text];
        let sealed = self.gateway.keys.seal.seal(Purpose::StackEvents, &parts)?;
        (sealed.len() <= LONGEST_EVENT_ID).then_some(sealed)
    }

    fn open(&self, sealed: &str) -> Option<String> {
        let [grant, session, text] = self.gateway.keys.seal.open(Purpose::StackEvents, sealed)?;
        (grant == self.holder.id() && session == self.session).then_some(text)
    }
}

/// Where a client resumes a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LastEvent {
    /// In the stream that answered a request, from one server.
    OfAnswer { server: String, id: HeaderValue },
    /// In the stream of all servers: the last event seen of each.
    OfAll(BTreeMap<Arc<str>, HeaderValue>),
}

impl Default for LastEvent {
    fn default() -> LastEvent {
        LastEvent::OfAll(BTreeMap::new())
    }
}

impl LastEvent {
    /// Reads an id that was given out in this session.
    pub(super) fn read(ids: &EventIds, sealed: &str) -> Option<LastEvent> {
        LastEvent::parse(&ids.open(sealed)?)
    }

    fn parse(text: &str) -> Option<LastEvent> {
        let mut parts = text.split('\0');
        let kind = parts.next()?;
        let mut pairs = BTreeMap::<Arc<str>, HeaderValue>::new();
        while let Some(server) = parts.next() {
            pairs.insert(Arc::from(server), HeaderValue::try_from(parts.next()?).ok()?);
        }
        match kind {
            "answer" if pairs.len() == 1 => {
                let (server, id) = pairs.pop_first()?;
                Some(LastEvent::OfAnswer { server: server.to_string(), id })
            }
            "all" => Some(LastEvent::OfAll(pairs)),
            _ => None,
        }
    }
}

/// Replaces the id of an event by what `id` makes of it; an event without an id is
/// unchanged.
fn rename_event(bytes: Bytes, id: impl FnOnce(&str) -> Option<String>) -> Bytes {
    let Some(event) = parse_event(&bytes) else { return bytes };
    match event.id.as_deref() {
        None | Some("") => bytes,
        Some(own) => Event { id: id(own), ..event }.encode(),
    }
}

/// The last event of each server that a client has seen on the stream of all servers.
#[derive(Debug, Default)]
pub(super) struct Seen(pub(super) BTreeMap<Arc<str>, String>);

impl Seen {
    /// Relabels an event of a server for the stream of all servers.
    pub(super) fn label(&mut self, ids: &EventIds, server: &Arc<str>, bytes: Bytes) -> Bytes {
        rename_event(bytes, |own| {
            self.0.insert(Arc::clone(server), own.to_owned());
            ids.write("all", self.0.iter().map(|(server, id)| (&**server, id.as_str())))
        })
    }
}

/// Relabels the events of one server's answer, so that their ids name the server.
pub(super) fn label(
    answer: Response<ClientBody>,
    ids: EventIds,
    server: &Arc<str>,
) -> Response<ClientBody> {
    if !is_event_stream(answer.headers()) {
        return answer;
    }
    let server = Arc::clone(server);
    // INVARIANT: each piece of such a stream is one event.
    let label =
        move |bytes| rename_event(bytes, |own| ids.write("answer", [(&*server, own)].into_iter()));
    answer.map(|body| ClientBody::from_body(body.map_frame(move |frame| frame.map_data(&label))))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::LastEvent;

    #[test]
    fn event_ids_name_their_server() {
        let id = |text| HeaderValue::from_static(text);
        let expected = LastEvent::OfAnswer { server: "notes".into(), id: id("7") };
        assert_eq!(LastEvent::parse("answer\0notes\x007"), Some(expected));
        let both = [("mail".into(), id("9")), ("notes".into(), id("7"))];
        let expected = LastEvent::OfAll(both.into_iter().collect());
        assert_eq!(LastEvent::parse("all\0notes\x007\0mail\x009"), Some(expected));
        for wrong in ["", "7", "all\0notes", "answer\0a\x001\0b\x002", "other\0a\x001"] {
            assert_eq!(LastEvent::parse(wrong), None, "{wrong}");
        }
    }
}
