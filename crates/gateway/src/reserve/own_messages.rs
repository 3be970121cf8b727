//! Messages that the gateway sends on its own behalf. They contain nothing a client wrote,
//! except a permitted `initialize` that is repeated, and the names of a subscription.

use bytes::Bytes;
use http::Method;
use sluice_http::Lease;
use sluice_wire::{
    mcp::{Revision, client_meta},
    rpc::Id,
};

use super::Permitted;
use crate::{answer::Shape, judge::Outgoing, refusal::Refusal, subscriptions::Filter};

/// Completes the handshake after `initialize`.
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A client's `initialize` as it was judged and sent, so that its session can be
/// re-established.
///
/// INVARIANT: taken only from a request that was permitted.
#[derive(Debug, Clone)]
pub(crate) struct Introduction(Bytes);

impl Introduction {
    /// The `initialize` message in a permitted request, if it is one.
    pub(crate) fn of(permitted: &Permitted) -> Option<Introduction> {
        let request = &permitted.request;
        let is_introduction =
            request.expected.as_ref().is_some_and(|expected| expected.shape == Shape::Introduction);
        (is_introduction && request.mirrors.is_none()).then(|| Introduction(request.body.clone()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub(crate) fn of_length(length: usize) -> Introduction {
        Introduction(vec![b'x'; length].into())
    }
}

impl Permitted {
    /// The client's `initialize`, sent again.
    pub(crate) fn initialize(introduction: &Introduction, lease: Option<Lease>) -> Permitted {
        let mut permitted = Permitted::post(introduction.0.clone());
        permitted.request.lease = lease;
        permitted
    }

    /// The notification that completes the handshake.
    pub(crate) fn initialized_notification() -> Permitted {
        Permitted::post(INITIALIZED)
    }

    /// A GET that opens the stream for the server's notifications and requests.
    pub(crate) fn open_stream() -> Permitted {
        Permitted::without_message(Method::GET)
    }

    /// A DELETE that ends a session.
    pub(crate) fn delete_session() -> Permitted {
        Permitted::without_message(Method::DELETE)
    }

    /// The notification that nobody waits for a request any more.
    pub(crate) fn cancel(id: &Id) -> Permitted {
        let id = id.to_json();
        Permitted::post(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"the gateway no longer waits for the answer"}}}}"#
        ))
    }

    /// The answer to a server request that is withheld from the client.
    pub(crate) fn refuse_server_request(id: &Id, method: String) -> Permitted {
        let refusal = Refusal::UnknownMethod { method, is_modern: false };
        Permitted::post(refusal.to_json(Some(id)))
    }

    /// A subscription that clients share, built from the members of their requests that the
    /// gateway knows. It carries notifications and no requests, and each client's copy is
    /// filtered.
    pub(crate) fn subscribe(filter: &Filter) -> Permitted {
        let client = ("sluicegate", env!("CARGO_PKG_VERSION"));
        let meta = client_meta(Revision::V2026_07_28, "{}", client);
        let filter = filter.to_json();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":"sluicegate","method":"subscriptions/listen","params":{{"notifications":{filter},{meta}}}}}"#
        );
        let mut permitted = Permitted::post(body);
        permitted.request.mirrors = Some(("subscriptions/listen".into(), None));
        permitted
    }

    fn post(body: impl Into<Bytes>) -> Permitted {
        let request = Outgoing { method: Method::POST, body: body.into(), ..Outgoing::default() };
        Permitted { request, settlement: None }
    }

    fn without_message(method: Method) -> Permitted {
        Permitted { request: Outgoing { method, ..Outgoing::default() }, settlement: None }
    }
}
