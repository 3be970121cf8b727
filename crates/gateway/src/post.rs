//! One posted message: what it is, through which door it goes, and what comes
//! of it.

mod plan;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderMap, Response};
use sluice_http::headers::{REVISION, SESSION};
use sluice_wire::{
    json::{Document, Value},
    mcp::{Era, Revision},
    rpc::{Id, Message},
};

use crate::{
    answer::{Shape, read_refusal, relay},
    body::ClientBody,
    forward::forward,
    receive,
    refusal::Refusal,
    repair, response,
    session::Session,
    spoken, subscriptions,
    visit::Visit,
};
use plan::{Plan, Step};

pub(crate) use plan::{is_notification, needs_id};

/// Answers a posted message.
pub(crate) fn post(
    visit: Visit,
    bytes: Vec<u8>,
) -> impl Future<Output = Response<ClientBody>> + Send {
    let ends = Ends::of(&visit.headers);
    let visit = Arc::new(visit);
    lasting(ends, answer(visit, bytes))
}

/// Does work that ends as its client's era has it.
pub(crate) fn lasting<F>(ends: Ends, work: F) -> impl Future<Output = F::Output> + Send
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    Lasting { work: Some(Box::pin(work)), ends }
}

async fn answer(visit: Arc<Visit>, bytes: Vec<u8>) -> Response<ClientBody> {
    let document = match receive::parse(&visit.gateway, bytes) {
        Ok(document) => document,
        Err(refusal) => return refusal.respond(None),
    };
    answer_read(visit, document).await
}

/// Answers a message that was read.
pub(crate) fn read(
    visit: Visit,
    document: Document,
) -> impl Future<Output = Response<ClientBody>> + Send {
    answer_read(Arc::new(visit), document)
}

/// The visit is shared from the start: it is large, and handed on several times.
async fn answer_read(visit: Arc<Visit>, document: Document) -> Response<ClientBody> {
    let message = match Message::read(&document) {
        Ok(message) => message,
        Err(error) => {
            return Refusal::Request(error.to_string()).respond(readable_id(&document).as_ref());
        }
    };
    let id = message.request_id().cloned();
    let planned = match settled(visit, &message) {
        Ok(visit) => {
            let plan = plan::plan(&visit, &document, message).await;
            plan.map(|plan| (visit, plan))
        }
        Err(refusal) => Err(refusal),
    };
    let answered = match planned {
        Ok((visit, plan)) => carried_out(&visit, plan, document, id.as_ref()).await,
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(|refusal| refusal.respond(id.as_ref()))
}

/// The id of a message that is wrong otherwise.
pub(crate) fn readable_id(document: &Document) -> Option<Id> {
    document.root().get("id").and_then(|id| Id::read(id).ok())
}

/// Settles which revision is spoken, and in which session.
fn settled(mut shared: Arc<Visit>, message: &Message<'_>) -> Result<Arc<Visit>, Refusal> {
    // Nobody else has it yet.
    let visit = Arc::make_mut(&mut shared);
    let (method, params) = match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            (Some(*method), *params)
        }
        Message::Response { .. } | Message::Failure { .. } => (None, None),
    };
    visit.revision = spoken::revision(&visit.headers, method, params)?;
    let sealed = visit.headers.get(SESSION).and_then(|value| value.to_str().ok());
    if let Some(sealed) = sealed.filter(|_| !visit.is_modern() && method != Some("initialize")) {
        visit.session =
            Some(Session::open(&visit.gateway, &visit.holder, visit.server_name(), sealed)?);
    }
    Ok(shared)
}

/// Does what was planned.
async fn carried_out(
    visit: &Arc<Visit>,
    plan: Plan,
    document: Document,
    id: Option<&Id>,
) -> Result<Response<ClientBody>, Refusal> {
    let step = match plan {
        Plan::Answer(answer) => return Ok(answer),
        Plan::Result(result) => return Ok(response::result(id, &result)),
        Plan::Listen(permit) => {
            return Box::pin(subscriptions::listen(visit, permit, &document, id)).await;
        }
        Plan::Forward(step) => step,
    };
    let Step { permit, mut outgoing, edited, expected } = *step;
    repair::note(visit, &document);
    outgoing.body = edited.unwrap_or_else(|| document.into_text()).into();
    let is_hello = !visit.is_modern()
        && expected.as_ref().is_some_and(|expected| expected.shape == Shape::Introduction);
    // A body is shared, not copied.
    let again = (is_hello || visit.session.is_some()).then(|| outgoing.clone());
    let answered = forward(visit, permit, outgoing).await?;
    let is_suspicious = repair::is_suspicious(visit, answered.answer.status());
    match (expected, again) {
        (Some(expected), Some(outgoing)) if is_suspicious => {
            let (visit, answered) =
                Box::pin(repair::resent(visit, answered, outgoing, &expected.id)).await?;
            relay(&visit, expected, answered).await
        }
        (Some(expected), Some(outgoing)) if is_hello => {
            let answer = relay(visit, expected, answered).await?;
            repair::remember(visit, &answer, outgoing.body);
            Ok(answer)
        }
        (Some(expected), _) => relay(visit, expected, answered).await,
        (None, _) if is_suspicious => {
            Box::pin(repair::replaced(visit, answered.answer)).await?;
            Ok(response::accepted())
        }
        (None, _) if answered.answer.status().is_success() => Ok(response::accepted()),
        (None, _) => {
            let (parts, body) = answered.answer.into_parts();
            Err(Box::pin(read_refusal(visit, &parts, body)).await)
        }
    }
}

/// Whether a parameter is there, and text.
fn text<'d>(params: Option<Value<'d>>, name: &str) -> Option<&'d str> {
    params.and_then(|params| params.get(name)).and_then(Value::as_str)
}

/// When work ends that its client no longer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    WithTheClient,
    WhenDone,
}

impl Ends {
    /// A legacy client that goes away has not cancelled its request; a modern
    /// one has. Whether the body agrees with the header is seen later.
    pub(crate) fn of(headers: &HeaderMap) -> Ends {
        let version = headers.get(REVISION).and_then(|value| value.to_str().ok());
        match version.and_then(Revision::from_name).map(Revision::era) {
            Some(Era::Modern) => Ends::WithTheClient,
            _ => Ends::WhenDone,
        }
    }
}

/// Work that may be finished even if nobody waits for it any more.
struct Lasting<F: Future + Send + 'static>
where
    F::Output: Send,
{
    work: Option<Pin<Box<F>>>,
    ends: Ends,
}

impl<F: Future + Send + 'static> Future for Lasting<F>
where
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl<F: Future + Send + 'static> Drop for Lasting<F>
where
    F::Output: Send,
{
    fn drop(&mut self) {
        if self.ends == Ends::WhenDone
            && let (Some(work), Ok(runtime)) =
                (self.work.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(work);
        }
    }
}
