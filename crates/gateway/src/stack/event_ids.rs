//! Event ids for resuming a stream of all servers. They contain the server's name,
//! because two servers may use the same ids.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use http::{HeaderValue, Response};
use http_body_util::BodyExt as _;
use sluice_http::headers::is_event_stream;
use sluice_http::sse::Event;

use crate::{answer::parse_event, body::ClientBody};

/// The longest id in bytes that is safe in a header.
const LONGEST: usize = 4096;

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
    /// Reads an id that was made here.
    pub(super) fn read(text: &str) -> Option<LastEvent> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let text = String::from_utf8(bytes).ok()?;
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

fn write_id<'a>(kind: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let mut text = kind.to_owned();
    for (server, id) in pairs {
        text.extend(["\0", server, "\0", id]);
    }
    Some(BASE64URL_NOPAD.encode(text.as_bytes())).filter(|id| id.len() <= LONGEST)
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
    pub(super) fn label(&mut self, server: &Arc<str>, bytes: Bytes) -> Bytes {
        rename_event(bytes, |own| {
            self.0.insert(Arc::clone(server), own.to_owned());
            write_id("all", self.0.iter().map(|(server, id)| (&**server, id.as_str())))
        })
    }
}

/// Relabels the events of one server's answer, so that their ids name the server.
pub(super) fn label(answer: Response<ClientBody>, server: &Arc<str>) -> Response<ClientBody> {
    if !is_event_stream(answer.headers()) {
        return answer;
    }
    let server = Arc::clone(server);
    // INVARIANT: each piece of such a stream is one event.
    let label =
        move |bytes| rename_event(bytes, |own| write_id("answer", [(&*server, own)].into_iter()));
    answer.map(|body| {
        ClientBody::Stream(Box::pin(body.map_frame(move |frame| frame.map_data(&label))))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http::HeaderValue;

    use super::{LastEvent, Seen, parse_event, write_id};

    #[test]
    fn event_ids_name_their_server() {
        let id = write_id("answer", [("notes", "7")].into_iter()).unwrap();
        let id7 = HeaderValue::from_static("7");
        let expected = LastEvent::OfAnswer { server: "notes".into(), id: id7.clone() };
        assert_eq!(LastEvent::read(&id), Some(expected));
        let mut seen = Seen::default();
        let (notes, mail) = (Arc::from("notes"), Arc::from("mail"));
        seen.label(&mail, Bytes::from_static(b"id: 9\ndata: {}\n\n"));
        let last = seen.label(&notes, Bytes::from_static(b"id: 7\ndata: {\"a\":1}\n\n"));
        let event = parse_event(&last).unwrap();
        assert_eq!(event.data.as_deref(), Some(r#"{"a":1}"#));
        let both = [(mail, HeaderValue::from_static("9")), (notes.clone(), id7)];
        let expected = LastEvent::OfAll(both.into_iter().collect());
        assert_eq!(LastEvent::read(&event.id.unwrap()), Some(expected));
        let plain = Bytes::from_static(b"data: 1\n\n");
        assert_eq!(seen.label(&notes, plain.clone()), plain);
        for wrong in ["", "7", "!", "YWxsAGE"] {
            assert_eq!(LastEvent::read(wrong), None, "{wrong}");
        }
    }
}
