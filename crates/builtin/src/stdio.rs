//! A built-in server for one client over stdio: newline-delimited messages, in both eras.
//!
//! Each call is a task of its own, so that none delays another, nor a `ping`.

use std::{io, sync::Arc, time::Duration};

use sluice_stdio::{Line, Lines};
use sluice_wire::{
    json::{Bounds, Document, Value},
    mcp::Revision,
    rpc::{Id, Message},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
    task::JoinSet,
};

use super::{
    Builtin, Progress,
    calls::Calls,
    fault::{self, Fault},
    mirror,
    serve::{self, Served},
};

/// The longest message that is read.
const LONGEST: usize = 16 << 20;
/// The maximum number of unsent lines; beyond it, no more input is read (back-pressure).
const MOST_WAITING: usize = 64;
/// The maximum number of concurrent calls.
const MOST_CALLS: usize = 256;
/// How long calls may still run after the client has closed its input.
const GRACE: Duration = Duration::from_secs(1);

/// Serves one client until its input ends, or the output is closed.
pub async fn serve_stdio<R, W>(server: Arc<dyn Builtin>, input: R, output: W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (lines, said) = mpsc::channel(MOST_WAITING);
    let writing = tokio::spawn(write(output, said));
    let mut conversation = Conversation {
        server,
        agreed: Revision::UNSAID,
        calls: Calls::default(),
        under_way: JoinSet::new(),
        lines,
    };
    let mut input = Lines::new(input, LONGEST);
    while let Some(line) = input.next(u64::MAX).await? {
        if conversation.hear(line).await.is_err() {
            break;
        }
    }
    conversation.end().await;
    writing.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Writes queued messages, several lines at once if possible.
async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut said: mpsc::Receiver<String>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(line) = said.recv().await {
        let mut next = Some(line);
        while let Some(line) = next {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            next = said.try_recv().ok();
        }
        output.write_all(&bytes).await?;
        output.flush().await?;
        // The buffer of a long answer is not kept.
        bytes = Vec::new();
    }
    Ok(())
}

/// The output was closed.
struct Unread;

/// The state of the conversation with one client.
struct Conversation {
    server: Arc<dyn Builtin>,
    /// The negotiated legacy protocol version.
    agreed: Revision,
    calls: Calls,
    under_way: JoinSet<()>,
    lines: mpsc::Sender<String>,
}

impl Conversation {
    /// Handles one line.
    async fn hear(&mut self, line: Line) -> Result<(), Unread> {
        while self.under_way.try_join_next().is_some() {}
        let line = match line {
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => return Ok(()),
            Line::Whole(line) => line,
            Line::TooLong { length, .. } => {
                let problem = format!("the message has {length} bytes, at most {LONGEST}");
                return self.say(Fault::invalid(&problem).body(None)).await;
            }
        };
        let bounds = Bounds { bytes: LONGEST, string: LONGEST, ..Bounds::default() };
        let document = match Document::parse(line, &bounds) {
            Ok(document) => document,
            Err(refusal) => return self.say(Fault::unreadable(&refusal).body(None)).await,
        };
        match Message::read(&document) {
            Ok(Message::Request { id, method: "tools/call", .. }) => self.begin(id, document).await,
            Ok(Message::Request { id, method, params }) => {
                let answered = self.answer(method, params).await;
                self.say(response_text(&id, answered)).await
            }
            Ok(message @ Message::Notification { .. }) => {
                self.calls.hear("", &message);
                Ok(())
            }
            // It was not a request, so there is no answer.
            Ok(Message::Response { .. } | Message::Failure { .. }) => Ok(()),
            Err(error) => self.say(Fault::invalid(&error).body(None)).await,
        }
    }

    /// Answers a request that needs no waiting.
    async fn answer(&mut self, method: &str, params: Option<Value<'_>>) -> Result<Served, Fault> {
        let revision = mirror::revision_without_headers(self.agreed, params)?;
        if method == "initialize" {
            self.agreed = serve::negotiate_revision(params).unwrap_or(self.agreed);
        }
        serve::serve(&*self.server, revision, method, params, &Progress::none()).await
    }

    /// Starts a call.
    async fn begin(&mut self, id: Id, document: Document) -> Result<(), Unread> {
        let ticket = if self.under_way.len() < MOST_CALLS {
            self.calls.begin("", &id).ok_or_else(|| {
                Fault::invalid(&format_args!("request {} is under way already", id.to_json()))
            })
        } else {
            Err(Fault::busy(MOST_CALLS))
        };
        let ticket = match ticket {
            Ok(ticket) => ticket,
            Err(fault) => return self.say(fault.body(Some(&id))).await,
        };
        let (server, agreed, lines) = (Arc::clone(&self.server), self.agreed, self.lines.clone());
        self.under_way.spawn(async move {
            let called = call(&*server, agreed, &document, lines.clone());
            if let Some(answered) = ticket.unless_cancelled(called).await {
                // If the output is closed, the conversation ends anyway.
                let _ = lines.send(response_text(&id, answered)).await;
            }
        });
        Ok(())
    }

    async fn say(&self, message: String) -> Result<(), Unread> {
        self.lines.send(message).await.map_err(|_| Unread)
    }

    /// Waits a short time for calls to finish, then drops the others.
    async fn end(mut self) {
        let finished = async { while self.under_way.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, finished).await;
        self.under_way.shutdown().await;
    }
}

async fn call(
    server: &dyn Builtin,
    agreed: Revision,
    document: &Document,
    lines: mpsc::Sender<String>,
) -> Result<Served, Fault> {
    let Ok(Message::Request { method, params, .. }) = Message::read(document) else {
        return Err(Fault::invalid(&"no request"));
    };
    let revision = mirror::revision_without_headers(agreed, params)?;
    let progress = Progress::of(params, lines);
    serve::serve(server, revision, method, params, &progress).await
}

fn response_text(id: &Id, answered: Result<Served, Fault>) -> String {
    match answered {
        Ok(served) => fault::response(id, &served.result),
        Err(fault) => fault.body(Some(id)),
    }
}
