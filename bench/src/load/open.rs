//! Open loop: calls are sent at even intervals. A call's latency is measured from its scheduled
//! time, so that a stalling target is not flattered.
//!
//! Each connection has its own thread: the kernel's timers wake a thread more precisely than an
//! asynchronous runtime, whose resolution is a millisecond.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    num::NonZeroU64,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};

use super::{Load, Measured, check::check, request::Request, response::Decoder, tally::Tally};
use crate::{clock, target::Target};

const BUFFER: usize = 64 * 1024;
/// An answer that takes longer counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for all threads to start before the first call is due.
const LEAD: Duration = Duration::from_millis(20);

/// When each call is due; the threads take turns.
struct Schedule {
    start: Instant,
    rate: u32,
    calls: u32,
    next: AtomicU32,
}

impl Schedule {
    /// The scheduled time of the next call that no thread has taken.
    fn take(&self) -> Option<Instant> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let offset = Duration::from_secs(1) * n / self.rate;
        (n < self.calls).then(|| self.start + offset)
    }
}

pub(super) fn run(
    load: &Load,
    target: &Target,
    rate: u32,
    connections: usize,
) -> anyhow::Result<Measured> {
    let streams: Vec<_> = (0..connections).map(|_| connect(target)).collect::<Result<_, _>>()?;
    let calls = u32::try_from(load.span.as_millis() * u128::from(rate) / 1000)?;
    let start = clock::now() + LEAD;
    let schedule = Schedule { start, rate, calls, next: AtomicU32::new(0) };
    let cpu = load.cpu()?;
    let tallies = thread::scope(|scope| {
        let workers: Vec<_> = streams
            .into_iter()
            .map(|stream| {
                let request = Request::new(&load.calls, target);
                let schedule = &schedule;
                scope.spawn(move || work(stream, request, schedule))
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow!("a thread ended early"))?)
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    let took = start.elapsed();
    let cpu = load.cpu()?.zip(cpu).map(|(after, before)| after.saturating_sub(before));
    let mut tally = Tally::new()?;
    for one in tallies {
        tally.merge(&one)?;
    }
    Ok(Measured { tally, took, cpu })
}

fn connect(target: &Target) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(target.address)
        .with_context(|| format!("no connection to {}", target.address))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}

fn work(mut stream: TcpStream, mut request: Request, schedule: &Schedule) -> anyhow::Result<Tally> {
    // By default the kernel may wake a thread 50 µs late, to save power.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let mut buffer = vec![0; BUFFER];
    let mut answer = Decoder::default();
    let mut tally = Tally::new()?;
    while let Some(due) = schedule.take() {
        thread::sleep(due.saturating_duration_since(clock::now()));
        let (bytes, id) = request.next();
        stream.write_all(bytes)?;
        answer.reset();
        loop {
            let length = stream.read(&mut buffer).context("a call was never answered")?;
            if length == 0 {
                bail!("the target closed the connection");
            }
            if answer.feed(buffer.get(..length).unwrap_or_default())? {
                break;
            }
        }
        tally.add(due.elapsed())?;
        check(&answer, id)?;
    }
    Ok(tally)
}
