//! The gateway under measurement: configures, starts and stops it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};

use super::{
    Arguments,
    config::{self, Listeners, Shape},
    parts::Part,
};
use crate::{clock, process::Process, target::Target};

/// How long a gateway with a very large configuration may take to be ready.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// The interval between readiness probes.
const LOOK: Duration = Duration::from_micros(500);

/// A configured gateway, running or not.
#[derive(Debug)]
pub(super) struct Installation {
    sluice: PathBuf,
    folder: PathBuf,
    listeners: Listeners,
    token: String,
}

/// A gateway that accepts calls.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) part: Part,
    /// The time from start to ready.
    pub(super) ready_after: Duration,
}

impl Installation {
    /// A new installation in its own folder, which is emptied first.
    pub(super) fn new(
        arguments: &Arguments,
        name: &str,
        shape: Shape,
        upstream: &Part,
    ) -> anyhow::Result<Installation> {
        let place = format!("url = \"{}\"", upstream.url());
        Installation::before(arguments, name, shape, &place)
    }

    /// An installation with one server, declared by a line of TOML.
    pub(super) fn before(
        arguments: &Arguments,
        name: &str,
        shape: Shape,
        place: &str,
    ) -> anyhow::Result<Installation> {
        let folder = arguments.work.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let listeners = Listeners { agents: free_address()?, people: free_address()? };
        config::write(&folder, shape, place, listeners)?;
        let sluice = fs::canonicalize(&arguments.sluice)
            .with_context(|| format!("no gateway at `{}`", arguments.sluice.display()))?;
        Ok(Installation { sluice, folder, listeners, token: shape.token() })
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Deletes it; some are too large to keep.
    pub(super) fn remove(self) -> anyhow::Result<()> {
        Ok(fs::remove_dir_all(&self.folder)?)
    }

    /// Starts it and waits until it is ready.
    pub(super) fn start(&self) -> anyhow::Result<Gateway> {
        let log = self.folder.join("log");
        let mut command = Command::new(&self.sluice);
        command.arg("up").arg("--config").arg(self.folder.join("sluice.toml"));
        command.arg("--data").arg(self.data());
        let started = clock::now();
        let mut process = Process::start_logged(&mut command, &log)?;
        while !is_ready(self.listeners.agents) {
            process.check_running().with_context(|| read_log_end(&log))?;
            if started.elapsed() > START_TIMEOUT {
                bail!("the gateway is not ready after {START_TIMEOUT:?}; {}", read_log_end(&log));
            }
            thread::sleep(LOOK);
        }
        let ready_after = started.elapsed();
        let target = Target {
            address: self.listeners.agents,
            path: "/mcp/bench".into(),
            token: Some(self.token.clone()),
            session: None,
        };
        Ok(Gateway { part: Part { process, target }, ready_after })
    }
}

/// The end of the gateway's log.
fn read_log_end(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(10).collect();
    let lines: Vec<_> = lines.into_iter().rev().collect();
    format!("the gateway said:\n{}", lines.join("\n"))
}

/// A free address. Another process could take it before the gateway does; then the gateway reports
/// that and the run stops.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(status == *b"HTTP/1.1 200")
    };
    ask().unwrap_or(false)
}
