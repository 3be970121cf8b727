//! `run.json`: announces the addresses of a running gateway, and finds a gateway by them.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sluice_policy::Timestamp;
use sluice_store::Secret;

use super::{DataDirectory, DataError, secret};
use crate::up::Addresses;
use sluice_config::{Environment, private};

const NAME: &str = "run.json";
/// How long a gateway on this machine may take to accept a connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The contents of `run.json`. Fields may be added; readers ignore unknown ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) pid: u32,
    listen: SocketAddr,
    admin: SocketAddr,
    /// Whether agents connect by TLS.
    #[serde(default)]
    tls: bool,
    /// The agents' URL as clients on other machines use it.
    #[serde(default)]
    agents_url: Option<String>,
    version: String,
    started_at: String,
}

/// A `run.json` that is removed when its gateway stops.
#[derive(Debug)]
pub(crate) struct RunFile {
    path: PathBuf,
}

impl DataDirectory {
    /// Writes the addresses that this process listens on, with the actual port if it was 0.
    pub(crate) fn announce(
        &self,
        addresses: &Addresses,
        at: Timestamp,
    ) -> Result<RunFile, DataError> {
        let path = self.path.join(NAME);
        let moment = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
        let run = Run {
            pid: std::process::id(),
            listen: addresses.listen,
            admin: addresses.admin,
            tls: addresses.is_tls,
            agents_url: Some(addresses.agents_url.clone()),
            version: env!("CARGO_PKG_VERSION").into(),
            started_at: moment.to_string(),
        };
        let text = serde_json::to_string(&run)
            .map_err(|error| DataError::Write(path.clone(), error.into()))?;
        secret::write(&path, &text)?;
        Ok(RunFile { path })
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        // A leftover file is harmless: readers see that its process is gone.
        let _ = fs::remove_file(&self.path);
    }
}

/// Reads the directory's `run.json`, if it has one.
pub(super) fn read(directory: &Path) -> Result<Option<Run>, DataError> {
    let path = directory.join(NAME);
    let Some(text) = secret::read(&path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|_| DataError::Content(path))
}

/// The URL of a running gateway's API, and its token.
#[derive(Debug)]
pub(crate) struct Running {
    /// Without a path.
    pub(crate) url: String,
    pub(crate) token: Secret,
}

/// Why no running gateway was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    #[error("no gateway is running on data directory `{}`\nhint: start one with `sluice up`", .0.display())]
    NotRunning(PathBuf),
    #[error("data directory `{}` does not exist, so no gateway is running on it\nhint: start one with `sluice up`, or name another directory with `--data`", .0.display())]
    NoDirectory(PathBuf),
    #[error(
        "`SLUICE_URL` is set, but `SLUICE_TOKEN` holds no admin token\nhint: set both, or neither for the gateway on this machine; tokens that begin with `sg_` are tokens of grants"
    )]
    NoToken,
    #[error("`{0}` must be visible ASCII characters without spaces")]
    Variable(&'static str),
    #[error(transparent)]
    Data(#[from] DataError),
}

impl Running {
    /// Finds the gateway that `SLUICE_URL` and `SLUICE_TOKEN` name, else the one on this data
    /// directory. The directory's token is sent only to the address in its own `run.json`.
    pub(crate) fn find(directory: &Path, environment: &Environment) -> Result<Running, FindError> {
        // A shell may hold a grant's token there, for the configuration of a client.
        let token = variable("SLUICE_TOKEN", environment)?;
        let token = token.filter(|token| !token.starts_with("sg_")).map(Secret::new);
        match (variable("SLUICE_URL", environment)?, token) {
            (Some(url), Some(token)) => {
                Ok(Running { url: url.trim_end_matches('/').to_owned(), token })
            }
            (Some(_), None) => Err(FindError::NoToken),
            (None, token) => local(directory, token, environment),
        }
    }
}

fn variable(name: &'static str, environment: &Environment) -> Result<Option<String>, FindError> {
    let Some(value) = environment.setting(name) else { return Ok(None) };
    match value.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic())) {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(FindError::Variable(name)),
    }
}

fn local(
    directory: &Path,
    token: Option<Secret>,
    environment: &Environment,
) -> Result<Running, FindError> {
    let not_running = || FindError::NotRunning(directory.to_owned());
    check_exists(directory)?;
    let metadata = directory.metadata().map_err(|_| not_running())?;
    if !metadata.is_dir() {
        return Err(DataError::NoDirectory(directory.to_owned()).into());
    }
    private::check_metadata(directory, &metadata, 0o700).map_err(DataError::from)?;
    let run = read(directory)?.filter(|run| is_alive(run.pid)).ok_or_else(not_running)?;
    let address = reachable(run.admin);
    TcpStream::connect_timeout(&address, PROBE_TIMEOUT).map_err(|_| not_running())?;
    let token = match token {
        Some(token) => Some(token),
        None => secret::of_environment(environment)?,
    };
    let token = match token {
        Some(token) => token,
        None => secret::token(&directory.join("admin-token"))?.ok_or_else(not_running)?,
    };
    Ok(Running { url: format!("http://{address}"), token })
}

fn check_exists(directory: &Path) -> Result<(), FindError> {
    match directory.try_exists() {
        Ok(false) => Err(FindError::NoDirectory(directory.to_owned())),
        _ => Ok(()),
    }
}

/// The agents' URL of the gateway that runs on a data directory, without a path.
pub(crate) fn agents_url(directory: &Path) -> Result<String, FindError> {
    let not_running = || FindError::NotRunning(directory.to_owned());
    check_exists(directory)?;
    let run = read(directory)?.filter(|run| is_alive(run.pid)).ok_or_else(not_running)?;
    let scheme = if run.tls { "https" } else { "http" };
    Ok(format!("{scheme}://{}", reachable(run.listen)))
}

/// The agents' URL of the gateway that runs on a data directory, as clients on any machine use it.
pub(crate) fn client_url(directory: &Path) -> Option<String> {
    let run = read(directory).ok().flatten().filter(|run| is_alive(run.pid))?;
    run.agents_url.or_else(|| agents_url(directory).ok())
}

/// The admin URL of the gateway on a data directory, or the default one if none runs.
pub(crate) fn admin_url(directory: &Path) -> String {
    let run = read(directory).ok().flatten().filter(|run| is_alive(run.pid));
    let address = run.map_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 8788)), |run| run.admin);
    format!("http://{}", reachable(address))
}

/// The address by which this machine reaches its own listener.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // A process that we may not signal does exist.
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}
