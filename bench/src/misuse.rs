//! Clients that take all they can get: requests that follow one another without a pause on many
//! connections, or streams that stay open. Refusals are not looked at.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    era::Era,
    listen,
    load::{Decoder, head},
    streams::{self, Kind},
    target::Target,
};

/// How long the misuse goes on before anything is measured.
const LEAD: Duration = Duration::from_millis(500);
/// How often the end of the misuse is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// The pause after a connection was closed.
const PAUSE: Duration = Duration::from_millis(10);

/// What the clients do.
#[derive(Debug, Clone)]
pub(crate) enum Misuse {
    /// The same message again and again on each connection.
    Requests { body: String, connections: usize },
    /// Streams of sessions of their own, opened and kept.
    Streams { count: usize },
}

/// Misuse in progress, on a thread of its own. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    is_over: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Misuse {
    /// Starts, and returns when the misuse is well under way.
    pub(crate) fn start(self, target: &Target) -> anyhow::Result<Running> {
        let (is_over, read) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (over, counted) = (Arc::clone(&is_over), Arc::clone(&read));
        let target = target.clone();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            listen::runtime(1)?.block_on(async {
                let _open = self.begin(&target, &counted).await?;
                // The receiver is there: `start` waits for this.
                let _ = begun.send(());
                while !over.load(Ordering::Relaxed) {
                    sleep(LOOK).await;
                }
                Ok(())
            })
        });
        let running = Running { is_over, read, thread: Some(thread) };
        if has_begun.recv().is_err() {
            running.stop()?;
        } else {
            thread::sleep(LEAD);
            return Ok(running);
        }
        Err(anyhow!("the misuse ended early"))
    }

    /// Begins; what is returned is kept until the end.
    async fn begin(self, target: &Target, read: &Arc<AtomicU64>) -> anyhow::Result<Vec<TcpStream>> {
        match self {
            Misuse::Streams { count } => streams::open(target, Kind::Get, count).await,
            Misuse::Requests { body, connections } => {
                let request = head("POST", target, Era::Legacy, "", Some(body.len())) + &body;
                let request: Arc<str> = request.into();
                for _ in 0..connections {
                    let (target, request) = (target.clone(), Arc::clone(&request));
                    let read = Arc::clone(read);
                    tokio::spawn(async move {
                        loop {
                            // A gateway may close the connection; that is no reason to stop.
                            let _ = repeat(&target, &request, &read).await;
                            sleep(PAUSE).await;
                        }
                    });
                }
                Ok(Vec::new())
            }
        }
    }
}

impl Running {
    /// Ends the misuse; returns how many bytes of answers were read.
    pub(crate) fn stop(mut self) -> anyhow::Result<u64> {
        self.end()?;
        Ok(self.read.load(Ordering::Relaxed))
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| anyhow!("a thread ended early"))?
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Sends the request again whenever it is answered.
async fn repeat(target: &Target, request: &str, read: &AtomicU64) -> anyhow::Result<()> {
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
    let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(target.address));
    let mut stream = connecting.await.context("no connection")??;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 64 << 10];
    let mut answer = Decoder::discarding();
    loop {
        stream.write_all(request.as_bytes()).await?;
        answer.reset();
        loop {
            let length = stream.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            read.fetch_add(u64::try_from(length)?, Ordering::Relaxed);
            if answer.feed(buffer.get(..length).unwrap_or_default())? {
                break;
            }
        }
    }
}
