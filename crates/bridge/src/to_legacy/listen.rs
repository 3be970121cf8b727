//! A modern subscription over the stream of a legacy session. The session is opened for
//! the subscription and ends with it; if the server can have only one session, that one
//! is used.

use std::sync::Arc;

use sluice_wire::{
    edit::quote,
    json::{Bounds, Document, Value},
    mcp::META_SUBSCRIPTION,
    rpc::Message,
};
use tokio::sync::mpsc;

use super::{
    ModernRequest, ToLegacy, refuse_open,
    session::Session,
    session_stream::{open, reopen},
};
use crate::{
    exchange::Reader,
    message::{Declared, tag_subscription},
    response::{Answer, ResponseWriter},
};

/// Each list subscription, its notification, and the server capability that it needs.
const LISTS: [(&str, &str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed", "tools"),
    ("promptsListChanged", "notifications/prompts/list_changed", "prompts"),
    ("resourcesListChanged", "notifications/resources/list_changed", "resources"),
];

/// Where notifications come from.
enum News {
    /// The stream of a session of its own.
    Stream(Reader),
    /// The server's only session.
    Shared(mpsc::Receiver<Document>),
}

/// The subscription of one client.
struct Listening {
    session: Arc<Session>,
    /// The id of the client's request, as JSON.
    id: String,
    /// Notifications that the client subscribed to.
    methods: Vec<&'static str>,
    uris: Vec<String>,
    bounds: Bounds,
}

impl ToLegacy {
    pub(super) async fn listen(self: &Arc<Self>, asked: ModernRequest) -> Answer {
        let (mut output, begun) = ResponseWriter::new();
        let this = Arc::clone(self);
        tokio::spawn(async move {
            // Clients that share a session must not see each other's subscriptions.
            let (headers, bounds) = (&asked.headers, asked.caller.bounds);
            let ourselves = Declared::gateway();
            let session = async {
                if this.link.has_one_client() {
                    return this.session(&asked).await;
                }
                Session::begin(&this.link, headers, &ourselves, bounds).await.map(Arc::new)
            };
            let session = tokio::select! {
                session = session => session,
                () = output.wait_for_disconnect() => return,
            };
            match session {
                Ok(session) => Listening::run(session, &asked, output).await,
                Err(error) => match refuse_open(&asked.id.to_json(), error) {
                    Ok(answer) => output.answer(answer),
                    Err(error) => output.fail(error),
                },
            }
        });
        begun.answer().await
    }
}

impl Listening {
    async fn run(session: Arc<Session>, asked: &ModernRequest, mut output: ResponseWriter) {
        let bounds = asked.caller.bounds;
        let id = asked.id.to_json();
        let news = if session.link().has_one_client() {
            Some(News::Shared(session.dispatcher.news()))
        } else {
            open(&session, None, bounds).await.map(News::Stream)
        };
        let Some(news) = news else {
            // A server without a stream never sends notifications, so none are
            // acknowledged.
            output.say(&acknowledgement(&id, &[], Vec::new())).await;
            return output.wait_for_disconnect().await;
        };
        let params = asked.document.root().get("params");
        let wish = params.and_then(|params| params.get("notifications"));
        let wants = |name: &str| {
            wish.and_then(|wish| wish.get(name)).and_then(Value::as_bool) == Some(true)
        };
        let lists = LISTS.into_iter().filter(|(name, _, needed)| {
            let can = session.can(needed).and_then(|can| can.get("listChanged"));
            wants(name) && can.and_then(Value::as_bool) == Some(true)
        });
        let (agreed, methods): (Vec<_>, Vec<_>) =
            lists.map(|(name, method, _)| (format!(r#""{name}":true"#), method)).unzip();
        let wanted = wish.and_then(|wish| wish.get("resourceSubscriptions"));
        let wanted = wanted.and_then(Value::items).into_iter().flatten().filter_map(Value::as_str);
        let mut uris = Vec::new();
        for uri in wanted {
            let params = format!(r#"{{"uri":{}}}"#, quote(uri));
            if session.request_and_confirm("resources/subscribe", &params, bounds).await {
                uris.push(uri.to_owned());
            }
        }
        output.say(&acknowledgement(&id, &uris, agreed)).await;
        let listening = Listening { session, id, methods, uris, bounds };
        match news {
            News::Stream(reader) => listening.follow(reader, &mut output).await,
            News::Shared(news) => listening.share(news, &mut output).await,
        }
    }

    async fn follow(self, mut reader: Reader, output: &mut ResponseWriter) {
        let mut tries = 0;
        loop {
            let next = tokio::select! {
                next = reader.next() => next,
                () = output.wait_for_disconnect() => return,
            };
            if let Ok(Some(document)) = next {
                tries = 0;
                self.forward_notification(&document, output).await;
                continue;
            }
            tries += 1;
            let reopened = tokio::select! {
                next = reopen(&self.session, &mut reader, tries, self.bounds) => next,
                () = output.wait_for_disconnect() => return,
            };
            match reopened {
                Some(next) => reader = next,
                // The stream is cut, so that the client subscribes again.
                None => return,
            }
        }
    }

    /// Passes on notifications of the shared session until one side ends.
    async fn share(self, mut news: mpsc::Receiver<Document>, output: &mut ResponseWriter) {
        loop {
            tokio::select! {
                next = news.recv() => match next {
                    Some(document) => self.forward_notification(&document, output).await,
                    None => return,
                },
                () = output.wait_for_disconnect() => return,
            }
        }
    }

    async fn forward_notification(&self, document: &Document, output: &mut ResponseWriter) {
        match Message::read(document) {
            Ok(Message::Notification { method, params }) => {
                let uri = params.and_then(|params| params.get("uri")).and_then(Value::as_str);
                let is_wanted = match method {
                    // Servers name the resource itself, or one within it.
                    "notifications/resources/updated" => uri.is_some_and(|uri| {
                        self.uris.iter().any(|wanted| uri.starts_with(wanted.as_str()))
                    }),
                    _ => self.methods.contains(&method),
                };
                if is_wanted {
                    output.say(&tag_subscription(document.root(), Some(&self.id))).await;
                }
            }
            Ok(Message::Request { id, method, .. }) => {
                self.session.put_off(&id, method).await;
            }
            _ => {}
        }
    }
}

/// The acknowledgement, with the subscriptions that were accepted.
fn acknowledgement(id: &str, uris: &[String], mut agreed: Vec<String>) -> String {
    if !uris.is_empty() {
        let uris: Vec<_> = uris.iter().map(|uri| quote(uri)).collect();
        agreed.push(format!(r#""resourceSubscriptions":[{}]"#, uris.join(",")));
    }
    let agreed = agreed.join(",");
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{{agreed}}},"_meta":{{"{META_SUBSCRIPTION}":{id}}}}}}}"#
    )
}
