//! Opens many event streams and keeps them open and idle.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    era::Era,
    load::{Decoder, head, meta},
    target::Target,
};

/// The number of streams opened concurrently.
const AT_ONCE: usize = 64;
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// How a client listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `subscriptions/listen`, in the modern era.
    Listen,
    /// A session and its GET stream, in the legacy era.
    Get,
}

impl Kind {
    pub(crate) fn era(self) -> Era {
        match self {
            Kind::Listen => Era::Modern,
            Kind::Get => Era::Legacy,
        }
    }
}

/// Opens this many streams, each on its own connection.
pub(crate) async fn open(
    target: &Target,
    kind: Kind,
    count: usize,
) -> anyhow::Result<Vec<TcpStream>> {
    stream::iter(0..count)
        .map(|n| async move {
            let one = timeout(OPEN_TIMEOUT, open_one(target, kind, n)).await;
            one.context("no answer")?.with_context(|| format!("stream {n} of {count}"))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Fails if a stream has been closed.
pub(crate) async fn check_open(streams: &[TcpStream]) -> anyhow::Result<()> {
    // The runtime needs a moment to notice closed connections.
    sleep(Duration::from_millis(100)).await;
    let mut buffer = [0; 1024];
    for stream in streams {
        match stream.try_read(&mut buffer) {
            Ok(0) => bail!("a stream was closed"),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn open_one(target: &Target, kind: Kind, n: usize) -> anyhow::Result<TcpStream> {
    let mut connection = TcpStream::connect(target.address).await?;
    match kind {
        Kind::Listen => listen(&mut connection, target, n).await?,
        Kind::Get => get(&mut connection, target).await?,
    }
    Ok(connection)
}

async fn listen(connection: &mut TcpStream, target: &Target, n: usize) -> anyhow::Result<()> {
    let era = Era::Modern;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{n},"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{}}}}}"#,
        meta(era)
    );
    let headers = "Mcp-Method: subscriptions/listen\r\n";
    let request = head("POST", target, era, headers, Some(body.len())) + &body;
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Decoder::default();
    let word = b"notifications/subscriptions/acknowledged";
    while memchr::memmem::find(&answer.body, word).is_none() {
        receive(connection, &mut answer).await?;
    }
    Ok(())
}

/// The same target, with a new session.
pub(crate) async fn in_session(target: &Target) -> anyhow::Result<Target> {
    let mut connection = TcpStream::connect(target.address).await?;
    let begun = timeout(OPEN_TIMEOUT, begin(&mut connection, target)).await;
    Ok(Target { session: Some(begun.context("no answer")??), ..target.clone() })
}

/// Starts a session; returns its id.
async fn begin(connection: &mut TcpStream, target: &Target) -> anyhow::Result<String> {
    let era = Era::Legacy;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"1"}}}}}}"#,
        era.version()
    );
    let request = head("POST", target, era, "", Some(body.len())) + &body;
    let session = complete(connection, &request).await?.context("no session")?;
    let headers = format!("Mcp-Session-Id: {session}\r\n");
    let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let request = head("POST", target, era, &headers, Some(body.len())) + body;
    complete(connection, &request).await?;
    Ok(session)
}

async fn get(connection: &mut TcpStream, target: &Target) -> anyhow::Result<()> {
    let session = begin(connection, target).await?;
    let headers = format!("Mcp-Session-Id: {session}\r\n");
    let request = head("GET", target, Era::Legacy, &headers, None);
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Decoder::default();
    while !answer.has_head() {
        receive(connection, &mut answer).await?;
    }
    Ok(())
}

/// Sends a request and reads its whole answer; returns the session id in it.
async fn complete(connection: &mut TcpStream, request: &str) -> anyhow::Result<Option<String>> {
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Decoder::default();
    while !receive(connection, &mut answer).await? {}
    Ok(answer.session)
}

/// Reads more bytes; returns whether the answer is complete.
async fn receive(connection: &mut TcpStream, answer: &mut Decoder) -> anyhow::Result<bool> {
    let mut buffer = [0; 4096];
    let length = connection.read(&mut buffer).await?;
    if length == 0 {
        bail!("the target closed the connection");
    }
    let complete = answer.feed(buffer.get(..length).unwrap_or_default())?;
    if answer.has_head() && !matches!(answer.status, 200 | 202) {
        let body = String::from_utf8_lossy(&answer.body);
        bail!("HTTP {}: `{body}`", answer.status);
    }
    Ok(complete)
}
