//! Closed loop: each connection sends its next call when the last is answered.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::future::try_join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Load, Measured, check::check, request::Request, response::Decoder, tally::Tally};
use crate::{clock, listen, target::Target};

/// The size of the read buffer; several small answers fit into it.
const BUFFER: usize = 64 * 1024;
/// An answer that takes longer counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(load: &Load, target: &Target, connections: usize) -> anyhow::Result<Measured> {
    listen::runtime(1)?.block_on(async {
        let streams = try_join_all((0..connections).map(|_| connect(target))).await?;
        let cpu = load.cpu()?;
        let start = clock::now();
        let loops = streams.into_iter().enumerate().map(|(n, stream)| {
            let request = Request::new(&load.calls, target).of_connection(n);
            tokio::spawn(repeat(stream, request, start + load.span))
        });
        let whole = tokio::time::timeout(load.span + ANSWER_TIMEOUT, try_join_all(loops));
        let tallies = whole.await.context("a call was never answered")??;
        let took = start.elapsed();
        let cpu = load.cpu()?.zip(cpu).map(|(after, before)| after.saturating_sub(before));
        let mut tally = Tally::new()?;
        for one in tallies {
            tally.merge(&one?)?;
        }
        Ok(Measured { tally, took, cpu })
    })
}

async fn connect(target: &Target) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(target.address)
        .await
        .with_context(|| format!("no connection to {}", target.address))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn repeat(
    mut stream: TcpStream,
    mut request: Request,
    end: Instant,
) -> anyhow::Result<Tally> {
    let mut buffer = vec![0; BUFFER];
    let mut answer = Decoder::default();
    let mut tally = Tally::new()?;
    let mut sent = clock::now();
    while sent < end {
        let (bytes, id) = request.next();
        stream.write_all(bytes).await?;
        answer.reset();
        loop {
            let length = stream.read(&mut buffer).await?;
            if length == 0 {
                bail!("the target closed the connection");
            }
            if answer.feed(buffer.get(..length).unwrap_or_default())? {
                break;
            }
        }
        let answered = clock::now();
        check(&answer, id)?;
        tally.add(answered - sent)?;
        sent = answered;
    }
    Ok(tally)
}
