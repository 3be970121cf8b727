//! A cheap MCP server: it searches a request for method and id and parses nothing else, so that the
//! measurement shows the cost of the proxy.

mod answer;
mod body;
mod find;
mod lines;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::Args;
use http_body_util::BodyExt as _;
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header};

use crate::{era::Era, listen};
use answer::Answers;
use body::Reply;

/// The arguments of the upstream.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// Where to listen; port 0 takes a free one, which is printed
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Approximate size of a call's answer, in bytes
    #[arg(long, default_value_t = 200)]
    size: usize,
    /// Number of tools in the list
    #[arg(long, default_value_t = 20)]
    tools: usize,
    #[arg(long, value_enum, default_value_t = Era::Legacy)]
    era: Era,
    /// Answer calls as server-sent events
    #[arg(long)]
    sse: bool,
    /// Milliseconds before a call is answered
    #[arg(long, default_value_t = 0)]
    delay: u64,
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Read messages from standard input and answer on standard output
    #[arg(long)]
    stdio: bool,
}

/// The name of the `n`th tool, in lists and policies.
pub(crate) fn tool(n: usize) -> String {
    format!("tool_{n:05}")
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let answers =
        Arc::new(Answers::new(arguments.era, arguments.size, arguments.tools, arguments.sse));
    if arguments.stdio {
        return lines::serve(&answers);
    }
    let delay = Duration::from_millis(arguments.delay);
    listen::runtime(arguments.workers)?.block_on(listen::serve(arguments.listen, move |request| {
        let answers = Arc::clone(&answers);
        async move { Ok::<_, Infallible>(respond(&answers, delay, request).await) }
    }))
}

async fn respond(
    answers: &Answers,
    delay: Duration,
    request: Request<Incoming>,
) -> Response<Reply> {
    match *request.method() {
        Method::POST => match request.into_body().collect().await {
            Ok(body) => {
                let body = body.to_bytes();
                if !delay.is_zero() && find::method(&body) == Some(b"tools/call") {
                    tokio::time::sleep(delay).await;
                }
                post(answers, &body)
            }
            Err(_) => empty(StatusCode::BAD_REQUEST),
        },
        Method::GET if answers.era == Era::Legacy => stream(Reply::open(Bytes::from(": open\n\n"))),
        Method::DELETE if answers.era == Era::Legacy => empty(StatusCode::OK),
        _ => empty(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn post(answers: &Answers, body: &[u8]) -> Response<Reply> {
    let id = find::id(body);
    match (find::method(body), id) {
        (Some(b"tools/call"), Some(id)) if answers.sse => stream(answers.call(id)),
        (Some(b"tools/call"), Some(id)) => json(StatusCode::OK, answers.call(id)),
        (Some(b"tools/list"), Some(id)) => json(StatusCode::OK, answers.list(id)),
        (Some(b"initialize"), Some(id)) if answers.era == Era::Legacy => {
            let mut response = json(StatusCode::OK, answers.initialize(id));
            response.headers_mut().insert("mcp-session-id", answers.session());
            response
        }
        (Some(b"server/discover"), Some(id)) if answers.era == Era::Modern => {
            json(StatusCode::OK, answers.discover(id))
        }
        (Some(b"subscriptions/listen"), Some(id)) if answers.era == Era::Modern => {
            stream(answer::acknowledge(id))
        }
        (Some(b"ping"), Some(id)) => json(StatusCode::OK, answer::pong(id)),
        (_, None) => empty(StatusCode::ACCEPTED),
        // Clients continue with `initialize` after a 400; a 404 is the modern answer to an unknown
        // method.
        (_, Some(id)) if answers.era == Era::Legacy => {
            json(StatusCode::BAD_REQUEST, answer::unknown(id))
        }
        (_, Some(id)) => json(StatusCode::NOT_FOUND, answer::unknown(id)),
    }
}

fn json(status: StatusCode, reply: Reply) -> Response<Reply> {
    with_type(status, "application/json", reply)
}

fn stream(reply: Reply) -> Response<Reply> {
    with_type(StatusCode::OK, "text/event-stream", reply)
}

fn with_type(status: StatusCode, kind: &'static str, reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn empty(status: StatusCode) -> Response<Reply> {
    let mut response = Response::new(Reply::whole([Bytes::new(), Bytes::new(), Bytes::new()]));
    *response.status_mut() = status;
    response
}
