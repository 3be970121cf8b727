//! `/events`, a stream of server-sent events.

use std::{fmt::Write as _, io, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequestParts, State},
    http::{header, request::Parts},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use serde::Deserialize;
use sluice_store::Cursor;
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use super::{
    AdminState, Problem,
    extract::{QueryParams, RequestCaller},
    listen::find_network,
    openapi::{InternalServerError, ServiceUnavailable, UnprocessableContent},
};
use crate::ops::events::{Event, EventFilter, EventKind, EventReader};

/// How long a stream is silent at most.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a stream lasts. Readers go on with `Last-Event-ID`, if they still may: a session or a
/// token may have ended meanwhile.
const LONGEST_STREAM: Duration = Duration::from_mins(10);

/// Which events to send.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventQuery {
    /// Kinds of events, with commas between them: kinds of records, `change`, `health` or
    /// `problems`. All by default.
    #[param(nullable = false)]
    kind: Option<String>,
    /// Of the records, those of this server.
    #[param(nullable = false)]
    server: Option<String>,
    /// Of the records, those of the grant with this id or label.
    #[param(nullable = false)]
    grant: Option<String>,
}

impl EventQuery {
    fn filter(self) -> Result<EventFilter, Problem> {
        let names = self.kind.iter().flat_map(|kinds| kinds.split(','));
        let kinds = names.map(|name| {
            let found = EventKind::ALL.into_iter().find(|kind| kind.name() == name);
            found.ok_or_else(|| {
                let names = EventKind::ALL.map(|kind| format!("`{}`", kind.name()));
                Problem::request(format!("`kind` must be among {}", names.join(", ")))
            })
        });
        let kinds = kinds.collect::<Result<_, _>>()?;
        Ok(EventFilter { kinds, server: self.server, grant: self.grant })
    }
}

/// Where a reader resumes.
pub(super) struct LastEventId(Option<Cursor>);

impl<S: Send + Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<LastEventId, Problem> {
        let Some(id) = parts.headers.get("last-event-id") else { return Ok(LastEventId(None)) };
        let cursor = id.to_str().ok().and_then(|text| text.parse().ok());
        let wrong = || Problem::request("`Last-Event-ID` must be the id of an event");
        Ok(LastEventId(Some(cursor.ok_or_else(wrong)?)))
    }
}

/// Read events as they happen
///
/// A stream of server-sent events. The `event` is the kind. Records of the log have their place as
/// `id`, and as `data` the record as the log exports it. Sent again as `Last-Event-ID`, the id of
/// the last event makes the stream go on there, without gaps or repetitions.
#[utoipa::path(
    get,
    path = "/events",
    operation_id = "stream_events",
    tag = "events",
    params(
        EventQuery,
        ("Last-Event-ID" = Option<String>, Header, nullable = false, description = "The id of the last event that was read"),
    ),
    responses(
        (status = 200, description = "Events until the connection ends", body = String, content_type = "text/event-stream"),
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn stream(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(asked): QueryParams<EventQuery>,
    LastEventId(after): LastEventId,
) -> Result<Response, Problem> {
    Problem::check_server(&caller, asked.server.as_deref())?;
    let address = find_network(caller.address);
    let reader = state.ops.events().open(asked.filter()?, after, address).await?;
    let end = Instant::now() + LONGEST_STREAM;
    let chunks =
        stream::try_unfold((reader, Instant::now()), move |(mut reader, last)| async move {
            if last >= end {
                return Ok(None);
            }
            let chunk = read_chunk(&mut reader, last + HEARTBEAT).await?;
            Ok::<_, io::Error>(chunk.map(|chunk| (chunk, (reader, Instant::now()))))
        });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

/// The next events, or a comment if there are none until `deadline`.
async fn read_chunk(reader: &mut EventReader, deadline: Instant) -> io::Result<Option<Bytes>> {
    let Ok(read) = timeout_at(deadline, reader.next()).await else {
        return Ok(Some(Bytes::from_static(b":\n\n")));
    };
    let events = read.map_err(|error| {
        tracing::warn!(%error, "a stream of events was cut");
        io::Error::other("the log cannot be read")
    })?;
    Ok(events.map(|events| {
        let mut text = String::new();
        for event in &events {
            write_event(&mut text, event);
        }
        text.into()
    }))
}

/// Writes one event. Its data is JSON on one line.
fn write_event(out: &mut String, event: &Event) {
    // Writing to a string cannot fail.
    if let Some(cursor) = event.cursor {
        let _ = writeln!(out, "id: {cursor}");
    }
    let _ = write!(out, "event: {}\ndata: {}\n\n", event.kind.name(), event.data);
}
