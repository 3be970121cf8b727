//! A server started for one test, and requests to it.

use std::{fs, path::PathBuf, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use sluice_http::{AnswerBody, SendError};
use sluice_stdio::{Instances, Launch, Limits, OnlyChild, Program, StdioServer, Timeout};
use sluice_testkit::Folder;
use sluice_upstream::Upstream;
use sluice_wire::secrets::KnownSecrets;

/// Bytes of one message.
pub(crate) const MOST: usize = 100_000;

pub(crate) const MODERN: &str = "2026-07-28";

pub(crate) struct Server {
    pub(crate) upstream: Upstream,
    folder: Folder,
}

/// An answer that was read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn session(&self) -> String {
        self.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }

    /// The text of a tool's result.
    pub(crate) fn text(&self) -> &str {
        let (_, rest) = self.body.rsplit_once(r#""text":""#).unwrap_or_else(|| panic!("{self:?}"));
        rest.split('"').next().unwrap()
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.headers["content-type"] == "text/event-stream"
    }
}

/// A stream that stands.
pub(crate) struct Stream(AnswerBody);

impl Stream {
    pub(crate) fn new(body: AnswerBody) -> Stream {
        Stream(body)
    }

    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(Duration::from_secs(20), self.0.frame()).await;
        let data = frame.expect("an event in time")?.unwrap().into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }
}

pub(crate) fn script() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/server.sh").into()
}

fn launch() -> Launch {
    Launch {
        supervisor: None,
        environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        ..Launch::default()
    }
}

/// A command whose variable is its secret.
fn program(command: Vec<String>, record: String) -> Program {
    let mut known = KnownSecrets::default();
    known.add_command(&command);
    known.add(&record);
    Program { command, env: vec![("RECORD".into(), record)], secrets: known.build() }
}

impl Server {
    pub(crate) fn new(mode: &str, instances: Instances) -> Server {
        Server::of(vec![script(), mode.into()], instances)
    }

    /// A server whose answers are waited for so long.
    pub(crate) fn impatient(mode: &str, instances: Instances, patience: Duration) -> Server {
        Server::made(vec![script(), mode.into()], instances, patience)
    }

    pub(crate) fn of(command: Vec<String>, instances: Instances) -> Server {
        Server::made(command, instances, Duration::from_mins(1))
    }

    fn made(command: Vec<String>, instances: Instances, patience: Duration) -> Server {
        let folder = Folder::new().unwrap();
        let record = folder.join("record").display().to_string();
        let program = program(command, record);
        let limits = Limits { message: MOST, timeout: Some(Timeout::new(patience)) };
        let server = StdioServer::new("test", launch(), program, instances, limits);
        Server { upstream: Upstream::Stdio(server.into()), folder }
    }

    /// A server with one child for one client, which is started now.
    pub(crate) fn only(mode: &str) -> Server {
        let folder = Folder::new().unwrap();
        let record = folder.join("record").display().to_string();
        let command = vec![script(), mode.into()];
        let program = program(command, record);
        let child = OnlyChild::start("test", &launch(), &program, MOST).unwrap();
        Server { upstream: Upstream::Only(child.into()), folder }
    }

    /// What has reached the children, line by line.
    pub(crate) fn recorded(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("record")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<http::Response<AnswerBody>, SendError> {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let sent = tokio::time::timeout(Duration::from_secs(20), self.upstream.send(request));
        sent.await.expect("an answer in time")
    }

    /// Posts a message, with a session unless that is empty, and reads the answer.
    pub(crate) async fn post(&self, session: &str, body: &str) -> Result<Answer, SendError> {
        let headers = [("mcp-session-id", session)];
        let headers = if session.is_empty() { &[][..] } else { &headers };
        whole(self.send("POST", headers, body).await?).await
    }

    /// Calls a tool; `id` is JSON.
    pub(crate) async fn call(
        &self,
        session: &str,
        id: &str,
        tool: &str,
    ) -> Result<Answer, SendError> {
        self.post(session, &call(id, tool)).await
    }

    /// Begins a session.
    pub(crate) async fn begin(&self) -> String {
        let hello = r#"{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"sampling":{}},"clientInfo":{"name":"test","version":"1"}}}"#;
        let answer = self.post("", hello).await.unwrap();
        assert!(answer.body.contains(r#""id":"hi""#), "{answer:?}");
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(self.post(&answer.session(), ready).await.unwrap().status, 202);
        answer.session()
    }

    /// Opens a session's stream.
    pub(crate) async fn listen(&self, session: &str) -> Stream {
        let answer = self.send("GET", &[("mcp-session-id", session)], "").await.unwrap();
        assert_eq!(answer.status(), 200);
        Stream(answer.into_body())
    }

    pub(crate) async fn delete(&self, session: &str) -> u16 {
        let answer = self.send("DELETE", &[("mcp-session-id", session)], "").await.unwrap();
        answer.status().as_u16()
    }
}

pub(crate) fn call(id: &str, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","_meta":{{"progressToken":"mine-{tool}"}}}}}}"#
    )
}

pub(crate) async fn whole(answer: http::Response<AnswerBody>) -> Result<Answer, SendError> {
    let (parts, body) = answer.into_parts();
    let body = tokio::time::timeout(Duration::from_secs(20), body.collect()).await;
    let body = body.expect("an answer in time").unwrap().to_bytes();
    Ok(Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    })
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within twenty seconds: {what}");
}

/// Whether a process runs; one that ended and waits to be reaped does not.
pub(crate) fn runs(pid: &str) -> bool {
    let state = fs::read_to_string(PathBuf::from("/proc").join(pid).join("stat"));
    state.is_ok_and(|state| !state.contains(") Z "))
}
