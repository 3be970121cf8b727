//! Notifications on event streams: those about what the policy hides are dropped, and ids are
//! sealed.

use sluice_http::sse::Event;
use sluice_policy::AccessRequest;
use sluice_wire::json::{Document, Value};

use super::{EventStream, Passing};
use crate::{answer::server_request, sealed_ids::seal_task, settle::CallFailure};

impl EventStream {
    /// Checks a notification, and replaces the ids in it.
    pub(super) fn notification(
        &self,
        event: &Event,
        document: &Document,
        method: &str,
        params: Option<Value<'_>>,
    ) -> Result<Passing, CallFailure> {
        let link = &self.exchange.server.link;
        let named = |name: &str| params.and_then(|params| params.get(name));
        let changed = match method {
            "notifications/resources/updated" => {
                let uri = named("uri").and_then(Value::as_str).ok_or("an update of no resource")?;
                if !self.exchange.lets_pass(AccessRequest::Resource(uri)) {
                    return Ok(Passing::Nothing);
                }
                None
            }
            "notifications/tasks/status" | "notifications/tasks" => {
                let id = named("taskId").ok_or("news of no task")?;
                let text = id.as_str().ok_or("news of no task")?;
                if !link.state.tools.is_task_of(self.exchange.holder.id(), text) {
                    return Ok(Passing::Nothing);
                }
                let sealed = seal_task(&self.exchange, text).map_err(|_| "no seal")?;
                Some(replace(document, id, &sealed))
            }
            "notifications/cancelled" if !self.exchange.is_modern() => {
                // It cancels a request of the server, which the client knows by our id.
                let id = named("requestId").ok_or("a cancellation of nothing")?;
                let sealed =
                    server_request::seal_request_id(&self.exchange, id.raw()).ok_or("no seal")?;
                Some(replace(document, id, &sealed))
            }
            _ => None,
        };
        Ok(Passing::Bytes(event.encode_with(changed.as_deref().unwrap_or(document.text()))))
    }
}

fn replace(document: &Document, value: Value<'_>, text: &str) -> String {
    let (start, end) = (value.offset(), value.offset() + value.raw().len());
    let whole = document.text();
    let (before, after) =
        (whole.get(..start).unwrap_or_default(), whole.get(end..).unwrap_or_default());
    format!("{before}{}{after}", sluice_wire::edit::quote(text))
}
