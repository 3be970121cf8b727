//! A proxy that forwards and parses nothing: the minimum cost of any proxy on this stack. Bodies
//! stream both ways, and connections to the upstream are pooled.

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use clap::Args;
use http_body_util::{Either, Empty};
use hyper::{
    HeaderMap, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{self, HeaderName},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::listen;

/// Hop-by-hop headers.
const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The addresses to listen on and to forward to.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// Where to listen; port 0 takes a free one, which is printed
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The destination of every request, whatever its path
    #[arg(long)]
    upstream: Uri,
    #[arg(long, default_value_t = 2)]
    workers: usize,
}

type Pool = Client<HttpConnector, Incoming>;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let upstream = arguments.upstream.clone();
    listen::runtime(arguments.workers)?.block_on(async move {
        let pool: Pool = Client::builder(TokioExecutor::new()).build(connector);
        listen::serve(arguments.listen, move |request| {
            let (pool, upstream) = (pool.clone(), upstream.clone());
            async move { Ok::<_, Infallible>(pass_on(&pool, upstream, request).await) }
        })
        .await
    })
}

async fn pass_on(
    pool: &Pool,
    upstream: Uri,
    mut request: Request<Incoming>,
) -> Response<Either<Incoming, Empty<Bytes>>> {
    *request.uri_mut() = upstream;
    take_hop_headers(request.headers_mut());
    let Ok(mut response) = pool.request(request).await else {
        let mut response = Response::new(Either::Right(Empty::new()));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        return response;
    };
    take_hop_headers(response.headers_mut());
    response.map(Either::Left)
}

fn take_hop_headers(headers: &mut HeaderMap) {
    for name in &HOP {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}
