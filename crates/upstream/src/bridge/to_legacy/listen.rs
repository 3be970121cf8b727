//! A subscription over the stream of a legacy session, which is begun for it
//! alone and ends with it.

use std::{sync::Arc, time::Duration};

use http::Method;
use sluice_wire::{
    edit::quoted,
    json::{Bounds, Document, Value},
    mcp::Revision,
    rpc::Message,
};

use super::{Asked, ToLegacy, refused, session::Session};
use crate::{
    SendError,
    bridge::{
        exchange::{Reader, bare, is_events, set},
        message::{
            Declared, META_SUBSCRIPTION, MODERN, UNKNOWN_METHOD, error, response, tagged,
            unbridgeable,
        },
        output::{Answer, Output},
    },
};

/// How often a stream that ends is opened again without anything on it.
const MOST_TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Which wish goes with which news, and what the server must be able to do.
const LISTS: [(&str, &str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed", "tools"),
    ("promptsListChanged", "notifications/prompts/list_changed", "prompts"),
    ("resourcesListChanged", "notifications/resources/list_changed", "resources"),
];

/// What one client hears.
struct Listening {
    session: Arc<Session>,
    /// The id of the client's request, as JSON.
    id: String,
    /// News that it is told.
    methods: Vec<&'static str>,
    uris: Vec<String>,
    bounds: Bounds,
}

impl ToLegacy {
    pub(super) async fn listen(self: &Arc<Self>, asked: Asked) -> Answer {
        let (mut output, begun) = Output::new();
        let this = Arc::clone(self);
        tokio::spawn(async move {
            // Whoever shares a session must not hear what another listens to.
            let (headers, bounds) = (&asked.headers, asked.caller.bounds);
            let begun = Session::begin(&this.link, headers, &Declared::gateway(), bounds).await;
            match begun {
                Ok(session) => Listening::run(Arc::new(session), &asked, output).await,
                Err(error) => match refused(&asked.id.to_json(), error) {
                    Ok(answer) => output.answer(answer),
                    Err(error) => output.fail(error),
                },
            }
        });
        begun.await.unwrap_or_else(|_| Err(SendError::Lost("the bridge has failed".into())))
    }
}

impl Listening {
    async fn run(session: Arc<Session>, asked: &Asked, mut output: Output) {
        let bounds = asked.caller.bounds;
        let id = asked.id.to_json();
        let Some(reader) = opened(&session, None, bounds).await else {
            // A server without a stream never has news, and says so.
            output.say(&acknowledgement(&id, &[], Vec::new())).await;
            return output.gone().await;
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
            let params = format!(r#"{{"uri":{}}}"#, quoted(uri));
            if session.granted("resources/subscribe", &params, bounds).await {
                uris.push(uri.to_owned());
            }
        }
        output.say(&acknowledgement(&id, &uris, agreed)).await;
        let listening = Listening { session, id, methods, uris, bounds };
        listening.follow(reader, &mut output).await;
    }

    async fn follow(self, mut reader: Reader, output: &mut Output) {
        let mut tries = 0;
        loop {
            let next = tokio::select! {
                next = reader.next() => next,
                () = output.gone() => return,
            };
            if let Ok(Some(document)) = next {
                tries = 0;
                self.heard(&document, output).await;
                continue;
            }
            // A server may end a stream at will, and go on when it is asked to.
            tries += 1;
            tokio::time::sleep(PAUSE).await;
            let last = reader.last_event.take();
            match opened(&self.session, last.as_deref(), self.bounds).await {
                Some(next) if tries < MOST_TRIES => reader = next,
                // The client must listen anew: this stream is cut short.
                _ => return,
            }
        }
    }

    async fn heard(&self, document: &Document, output: &mut Output) {
        match Message::read(document) {
            Ok(Message::Notification { method, params }) => {
                let uri = params.and_then(|params| params.get("uri")).and_then(Value::as_str);
                let is_wanted = match method {
                    // Servers name the resource, or one within it.
                    "notifications/resources/updated" => uri.is_some_and(|uri| {
                        self.uris.iter().any(|wanted| uri.starts_with(wanted.as_str()))
                    }),
                    _ => self.methods.contains(&method),
                };
                if is_wanted {
                    output.say(&tagged(document.root(), Some(&self.id))).await;
                }
            }
            Ok(Message::Request { id, method, .. }) => {
                let id = id.to_json();
                let answer = if method == "ping" {
                    response(&id, "{}")
                } else {
                    let revision = Revision::V2025_11_25.name();
                    let what = unbridgeable(&format!("`{method}`"), MODERN.name(), revision);
                    error(&id, UNKNOWN_METHOD, &what)
                };
                self.session.tell(answer).await;
            }
            _ => {}
        }
    }
}

/// Says what the client will hear of.
fn acknowledgement(id: &str, uris: &[String], mut agreed: Vec<String>) -> String {
    if !uris.is_empty() {
        let uris: Vec<_> = uris.iter().map(|uri| quoted(uri)).collect();
        agreed.push(format!(r#""resourceSubscriptions":[{}]"#, uris.join(",")));
    }
    let agreed = agreed.join(",");
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{{agreed}}},"_meta":{{"{META_SUBSCRIPTION}":{id}}}}}}}"#
    )
}

/// The stream of a session, from where it ended on; `None` if there is none.
async fn opened(session: &Session, last: Option<&str>, bounds: Bounds) -> Option<Reader> {
    let mut headers = session.headers();
    set(&mut headers, "accept", "text/event-stream");
    if let Some(last) = last {
        set(&mut headers, "last-event-id", last);
    }
    let answer = session.link().upstream.send(bare(Method::GET, headers)).await.ok()?;
    let is_stream = answer.status().is_success() && is_events(answer.headers());
    is_stream.then(|| Reader::new(answer, bounds))
}
