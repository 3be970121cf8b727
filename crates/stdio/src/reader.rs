//! Reads a child's messages line by line and dispatches them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use sluice_wire::{
    edit::quote,
    json::{Document, Value},
    mcp::META_SUBSCRIPTION,
    rpc::{Id, Message},
};
use tokio::io::AsyncRead;

use super::{
    child::{Audience, Child, Fit, Kind},
    lines::{Ends, Line, Lines},
    shared_sessions::{Mailbox, Posted},
};

/// A line this many times longer than the longest message ends the child.
const FLOOD: u64 = 8;

/// How long a request of the child waits until its client opens its stream. Clients do so
/// right after `initialize`, and servers may ask at that moment.
const STREAM_WAIT: Duration = Duration::from_secs(5);

/// The error for a request of a child that has no client to ask.
pub const NOBODY_ASKED: &str = "no client can be asked: the server is shared by several clients, or its client does not listen";

/// Why reading has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// The output was closed, or the child is no longer held.
    Closed,
    /// A line does not end.
    Flood,
}

/// Reads messages from a child until its output ends.
pub(super) async fn listen(
    child: Weak<Child>,
    output: impl AsyncRead + Unpin,
    most: usize,
) -> Silence {
    let mut lines = Lines::new(output, most);
    let patience = (most as u64).saturating_mul(FLOOD);
    while let Ok(Some(line)) = lines.next(patience).await {
        let Some(child) = child.upgrade() else { return Silence::Closed };
        match line {
            Line::Whole(line) => hear(&child, line),
            Line::TooLong { ends, length } => {
                if length > patience {
                    return Silence::Flood;
                }
                let why = format!("its answer is longer than {most} bytes");
                unreadable(&child, &ends, &why);
            }
        }
    }
    Silence::Closed
}

fn hear(child: &Arc<Child>, line: Vec<u8>) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let ends = Ends::of(&line);
    let document = match Document::parse(line, &child.bounds()) {
        Ok(document) => document,
        Err(refusal) => {
            return unreadable(
                child,
                &ends,
                &format!("its answer is not valid JSON: {}", refusal.reason),
            );
        }
    };
    match Message::read(&document) {
        Ok(Message::Response { id, .. }) => child.deliver_answer(&id, &document, None),
        Ok(Message::Failure { id: Some(id), error }) => {
            let code = error.get("code").map(Value::raw);
            child.deliver_answer(&id, &document, Some(code.unwrap_or_default()));
        }
        Ok(Message::Failure { id: None, .. }) => {
            let head = String::from_utf8_lossy(&ends.head);
            child.chatter.note("it reports an error that belongs to no request", &head);
        }
        Ok(Message::Request { id, method, .. }) => handle_request(child, &document, &id, method),
        Ok(Message::Notification { method, params }) => news(child, &document, method, params),
        Err(error) => unreadable(child, &ends, &format!("its answer is invalid: {error}")),
    }
}

/// Handles a line that is not a message. If it looks like an answer, the waiting call
/// fails; otherwise it is probably text for people on the wrong stream.
fn unreadable(child: &Child, ends: &Ends, why: &str) {
    match perhaps_answers(ends) {
        Some(number) => child.fail(number, why),
        None => child.chatter.stray(&ends.head),
    }
}

/// The number of the request that a broken line seems to answer. Servers write the id
/// near the beginning or at the very end.
fn perhaps_answers(ends: &Ends) -> Option<u64> {
    if ends.head.first() != Some(&b'{') {
        return None;
    }
    let (head, tail) = (String::from_utf8_lossy(&ends.head), String::from_utf8_lossy(&ends.tail));
    let is_request = |text: &str| text.contains("\"method\"");
    let at_the_end = tail.rsplit_once("\"id\":").and_then(|(_, rest)| {
        let rest = rest.trim();
        rest.strip_suffix('}').unwrap_or(rest).trim().parse().ok()
    });
    let near_the_start = || {
        let (before, rest) = head.split_once("\"id\":")?;
        let is_outer = !before.get(1..)?.contains('{');
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok().filter(|_| is_outer)
    };
    near_the_start().or(at_the_end).filter(|_| !is_request(&head))
}

/// Handles a request of the child. It can be passed on only if the child has a single
/// client.
fn handle_request(child: &Arc<Child>, document: &Document, id: &Id, method: &str) {
    let is_passed = match &child.audience {
        // Before the handshake is complete, the client does not expect requests.
        Audience::One(mailbox) if child.is_introduced() && child.expect_reply(id) => {
            let is_heard = match notify_one(child, mailbox, document.text()) {
                Posted::Sent => true,
                Posted::Held(number) => {
                    let question =
                        HeldQuestion { number, id: id.clone(), method: method.to_owned() };
                    tokio::spawn(expire(Arc::downgrade(child), question));
                    true
                }
                Posted::Refused => false,
            };
            is_heard || !child.takes_reply(id)
        }
        Audience::One(_) | Audience::Many(_) => false,
    };
    if !is_passed {
        refuse(child, id, method);
    }
}

/// A request of the child that waits for its client's stream.
struct HeldQuestion {
    /// Its number in the mailbox.
    number: u64,
    id: Id,
    method: String,
}

/// Refuses a request whose client did not open a stream in time.
async fn expire(child: Weak<Child>, question: HeldQuestion) {
    tokio::time::sleep(STREAM_WAIT).await;
    let Some(child) = child.upgrade() else { return };
    let Audience::One(mailbox) = &child.audience else { return };
    if mailbox.withdraw(question.number) && child.takes_reply(&question.id) {
        refuse(&child, &question.id, &question.method);
    }
}

/// Answers a request of the child in place of a client that cannot be asked.
fn refuse(child: &Child, id: &Id, method: &str) {
    let reply = if method == "ping" {
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.to_json())
    } else {
        let message = quote(NOBODY_ASKED);
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":{message}}}}}"#,
            id.to_json()
        )
    };
    if child.tell_now(reply).is_err() {
        child.chatter.note("it sends requests but does not read its input", method);
    }
}

/// Handles a notification of the child.
fn news<'d>(child: &Arc<Child>, document: &'d Document, method: &str, params: Option<Value<'d>>) {
    let named = |name: &str| params.and_then(|params| params.get(name));
    if method == "notifications/progress" {
        if let Some(token) = named("progressToken") {
            child.aside(document, token, Kind::Progress);
        }
        return;
    }
    if let Some(id) = named("_meta").and_then(|meta| meta.get(META_SUBSCRIPTION)) {
        child.aside(document, id, Kind::Subscription);
        return;
    }
    let is_heard = match &child.audience {
        Audience::Many(_) if child.is_modern() => false,
        Audience::One(mailbox) => {
            one_hears(child, mailbox, document.text(), method) != Posted::Refused
        }
        Audience::Many(sessions) => match (sessions.upgrade(), method) {
            (None, _) => true,
            (Some(sessions), "notifications/resources/updated") => {
                if let Some(uri) = named("uri").and_then(Value::as_str) {
                    sessions.notify_updated(uri, document.text(), child.most);
                }
                true
            }
            (Some(sessions), method) if method.ends_with("/list_changed") => {
                sessions.tell_all(document.text(), child.most);
                true
            }
            // It cannot be attributed to a session.
            _ => false,
        },
    };
    if !is_heard {
        child.chatter.note("it sent a message that belongs to no client", document.text());
    }
}

/// Change notifications go to the session stream, others to the stream of a call.
fn one_hears(child: &Child, mailbox: &Mailbox, message: &str, method: &str) -> Posted {
    let is_change =
        method.ends_with("/list_changed") || method == "notifications/resources/updated";
    if is_change || !child.is_introduced() {
        mailbox.post(message, child.most)
    } else {
        notify_one(child, mailbox, message)
    }
}

/// Sends a message that may belong to any request of the single client. The child does
/// not say which one; the newest call is the most likely.
fn notify_one(child: &Child, mailbox: &Mailbox, message: &str) -> Posted {
    let other = || (!mailbox.is_open()).then(|| child.to_newest(Fit::Other, message)).flatten();
    match child.to_newest(Fit::Call, message).or_else(other) {
        Some(true) => Posted::Sent,
        // On another stream it would be mistaken for a message about another call.
        Some(false) => Posted::Refused,
        None => mailbox.post(message, child.most),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ends, perhaps_answers};

    #[test]
    fn a_broken_answer_names_its_request() {
        let check = |line: &str, expected: Option<u64>| {
            assert_eq!(perhaps_answers(&Ends::of(line.as_bytes())), expected, "{line}");
        };
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"#, Some(7));
        check(r#"{"jsonrpc":"2.0","id": 7 ,"result":{"a":1,"a":2}}"#, Some(7));
        check(r#"{"result":{"id":3},"jsonrpc":"2.0","id":7}"#, Some(7));
        check(r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":1}"#, None);
        check("Listening on stdio", None);
        check("", None);
        check(r#"{"level":"info"}"#, None);
    }
}
