//! Code shared by upstream and pass-through: a runtime, a listener that prints its address, and
//! HTTP/1.1 connections served by one function.

use std::{
    convert::Infallible,
    error::Error,
    io::{self, Write as _},
    net::SocketAddr,
};

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

/// The prefix of the line with the bound address.
pub(crate) const READY: &str = "listening on ";

/// A single-threaded runtime, or one with several workers.
pub(crate) fn runtime(workers: usize) -> io::Result<Runtime> {
    if workers <= 1 {
        return Builder::new_current_thread().enable_all().build();
    }
    Builder::new_multi_thread().worker_threads(workers).enable_all().build()
}

/// Listens and answers until the process exits.
pub(crate) async fn serve<F, Fut, B>(listen: SocketAddr, handle: F) -> anyhow::Result<()>
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = TcpListener::bind(listen).await?;
    let mut out = io::stdout();
    writeln!(out, "{READY}{}", listener.local_addr()?)?;
    out.flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(handle.clone());
        tokio::spawn(async move {
            // A client that disconnects is not an error here.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
