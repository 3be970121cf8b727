//! Launches a child process: its environment, its process group, and its shutdown.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use sluice_wire::secrets::Secrets;
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, Command},
    sync::{oneshot, watch},
    task::AbortHandle,
};

use super::{
    child::{Audience, Child},
    output_log::Chatter,
    queue::{Outbox, Outgoing},
    reader::{self, Silence},
    recent_output::{LastWords, Overheard},
    stderr,
    timeout::Timeout,
};

/// How long a child may take to exit after its input is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// A supervisor waits in the same way itself, so it gets more time.
const SUPERVISED: Duration = Duration::from_secs(8);
/// How long after the exit output may still arrive.
const DRAINED: Duration = Duration::from_secs(1);

/// Launch settings that all servers share.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// A program that runs the command given after `--`. When its own input closes, it
    /// ends the command together with all processes that it started, even if this process
    /// is killed. Without a supervisor, the command is started directly.
    pub supervisor: Option<Supervisor>,
    /// The base environment, to which a server's own variables are added. Nothing is
    /// inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// Where the stderr of a child goes.
    pub errors: Errors,
}

/// Where the stderr of children goes.
#[derive(Debug, Clone, Default)]
pub enum Errors {
    /// To the log, rate-limited.
    #[default]
    Log,
    /// To this process's own stderr, unchanged but for secrets.
    Repeat,
    /// To a buffer of the last lines, together with stdout lines that are not messages.
    Keep(Overheard),
}

/// A supervisor, and its arguments before `-- COMMAND…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervisor {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// The command to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments. The program is searched on the path, unless its
    /// name contains a slash.
    pub command: Vec<String>,
    /// Variables that are set in addition to those of [`Launch`].
    pub env: Vec<(String, String)>,
    /// What is removed from everything that it writes to stderr or outside the protocol.
    pub secrets: Secrets,
}

/// Resource limits of a child.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest message from it, and the most that may be queued for one caller, in
    /// bytes.
    pub message: usize,
    /// The timeout of its answers. If it answers nothing, not even a `ping`, for several
    /// such intervals in a row, it is ended; without a timeout it never is.
    pub timeout: Option<Timeout>,
}

/// Why a command cannot be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    #[error("there is no command to start")]
    Empty,
    #[error("command `{0}` is not found\nhint: install it, or give its full path")]
    NotFound(String),
    #[error("command `{0}` is not executable\nhint: chmod +x it, or name the program that runs it")]
    NotExecutable(String),
    #[error("command `{0}` cannot be started: {1}")]
    Spawn(String, std::io::Error),
}

/// Starts a child, and the tasks that read its output.
pub(super) fn launch(
    launch: &Launch,
    program: &Program,
    limits: Limits,
    chatter: &Chatter,
    audience: Audience,
) -> Result<Arc<Child>, LaunchError> {
    let mut command = command(launch, program)?;
    let named = program.command.first().cloned().unwrap_or_default();
    let failed = |error| LaunchError::Spawn(named.clone(), error);
    let mut process = command.spawn().map_err(failed)?;
    let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    let (Some(input), Some(output), errors) = pipes else {
        return Err(failed(std::io::Error::other("it has no pipes")));
    };
    let (outbox, outgoing) = Outbox::new();
    let (held, is_held) = watch::channel(());
    let (exit, exited) = watch::channel(None);
    let (wrote, words) = last_words(launch);
    let most = limits.message;
    let child = Child::new(outbox, limits, chatter.clone(), audience, held, exited, words);
    let child = Arc::new(child);
    let writer = tokio::spawn(write(input, outgoing)).abort_handle();
    match (errors, &launch.errors) {
        (None, _) => wrote.close(),
        (Some(errors), Errors::Repeat) => {
            tokio::spawn(stderr::repeat(errors, program.secrets.clone(), wrote.clone()));
        }
        (Some(errors), Errors::Log) => {
            tokio::spawn(stderr::log(errors, chatter.clone(), Some(wrote.clone())));
        }
        // Its buffer is already part of `chatter`.
        (Some(errors), Errors::Keep(_)) => {
            tokio::spawn(stderr::log(errors, chatter.clone(), None));
        }
    }
    let (silent, silence) = oneshot::channel();
    let weak = Arc::downgrade(&child);
    let hearer = Arc::downgrade(&child);
    tokio::spawn(async move {
        let _ = silent.send(reader::listen(hearer, output, most).await);
    });
    let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let is_supervised = launch.supervisor.is_some();
    let keeper = Keeper { process, writer, group, is_supervised, wrote };
    tokio::spawn(async move {
        let (why, status) = keeper.keep(silence, is_held, || weak.upgrade()).await;
        exit.send_replace(status);
        if let Some(child) = weak.upgrade() {
            child.finish(&why);
        }
    });
    Ok(child)
}

/// The buffer of a child's last lines, and how they are quoted. A buffer that the caller
/// provides is quoted by the caller.
fn last_words(launch: &Launch) -> (Overheard, Option<LastWords>) {
    if let Errors::Keep(overheard) = &launch.errors {
        return (overheard.clone(), None);
    }
    let overheard = Overheard::default();
    let words = LastWords::new(overheard.clone());
    (overheard, Some(words))
}

fn command(launch: &Launch, program: &Program) -> Result<Command, LaunchError> {
    let (name, arguments) = program.command.split_first().ok_or(LaunchError::Empty)?;
    let declared = program.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let path = declared
        .clone()
        .filter(|(name, _)| *name == "PATH")
        .map(|(_, value)| OsString::from(value))
        .next_back();
    let inherited = launch.environment.iter().find(|(name, _)| name == "PATH");
    let path = path.or_else(|| inherited.map(|(_, value)| value.clone())).unwrap_or_default();
    let found = find(name, &path)?;
    let mut command = match &launch.supervisor {
        Some(supervisor) => {
            let mut command = Command::new(&supervisor.program);
            command.args(&supervisor.arguments).arg("--").arg(&found);
            command
        }
        None => Command::new(&found),
    };
    command
        .args(arguments)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .envs(declared)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C in this process's terminal must not reach the child.
        .process_group(0)
        .kill_on_drop(launch.supervisor.is_none());
    Ok(command)
}

/// Finds a program before it is started, so that the error can say what is wrong.
fn find(name: &str, path: &OsStr) -> Result<PathBuf, LaunchError> {
    if name.is_empty() {
        return Err(LaunchError::Empty);
    }
    let is_file = |candidate: &Path| candidate.metadata().is_ok_and(|found| found.is_file());
    let runs = |candidate: &Path| {
        fs::metadata(candidate).is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
    };
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        // A relative folder would depend on where the gateway was started.
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).collect()
    };
    let mut files = candidates.into_iter().filter(|candidate| is_file(candidate)).peekable();
    if files.peek().is_none() {
        return Err(LaunchError::NotFound(name.to_owned()));
    }
    files.find(|file| runs(file)).ok_or_else(|| LaunchError::NotExecutable(name.to_owned()))
}

/// Writes messages to a child until its input closes.
async fn write(mut input: ChildStdin, mut outgoing: Outgoing) {
    while let Some((line, room)) = outgoing.recv().await {
        if input.write_all(&line).await.is_err() {
            return;
        }
        drop(room);
    }
}

/// The task that waits for the process and stops it.
struct Keeper {
    process: tokio::process::Child,
    writer: AbortHandle,
    group: Option<Pid>,
    is_supervised: bool,
    /// The last lines that it wrote to stderr.
    wrote: Overheard,
}

impl Keeper {
    /// Waits until the process exits, closes its output, or is no longer held, and then
    /// ends it completely. Returns the reason and the exit status.
    async fn keep(
        mut self,
        mut silence: oneshot::Receiver<Silence>,
        mut is_held: watch::Receiver<()>,
        child: impl Fn() -> Option<Arc<Child>>,
    ) -> (String, Option<ExitStatus>) {
        let why = tokio::select! {
            ended = self.process.wait() => {
                // Its last lines may still be in the pipe, and its own children may keep
                // that open.
                self.sweep();
                let drained = async {
                    let _ = (&mut silence).await;
                    self.wrote.wait_closed().await;
                };
                let _ = tokio::time::timeout(DRAINED, drained).await;
                exit_text(ended.ok())
            }
            silent = &mut silence => match silent {
                Ok(Silence::Flood) => "the server wrote a line without end".to_owned(),
                _ => self.last_words().await,
            },
            _ = is_held.changed() => "the server is no longer needed".to_owned(),
        };
        // Callers need not wait until the process has exited.
        if let Some(child) = child() {
            child.finish(&why);
        }
        (why, self.end().await)
    }

    /// Why its output was closed.
    async fn last_words(&mut self) -> String {
        let ended = tokio::time::timeout(DRAINED, self.process.wait()).await;
        if ended.is_ok() {
            let _ = tokio::time::timeout(DRAINED, self.wrote.wait_closed()).await;
        }
        ended.map_or_else(|_| "the server closed its output".into(), |ended| exit_text(ended.ok()))
    }

    /// Closes its input, then sends SIGTERM, then SIGKILL.
    async fn end(mut self) -> Option<ExitStatus> {
        self.writer.abort();
        let patience = if self.is_supervised { SUPERVISED } else { GRACE };
        for signal in [Signal::TERM, Signal::KILL] {
            if tokio::time::timeout(patience, self.process.wait()).await.is_ok() {
                break;
            }
            self.signal(signal);
        }
        let ended = self
            .process
            .wait()
            .await
            .inspect_err(|error| tracing::warn!(%error, "waiting for a process failed"));
        self.sweep();
        // All its stderr is read before the exit is reported.
        let _ = tokio::time::timeout(DRAINED, self.wrote.wait_closed()).await;
        ended.ok()
    }

    /// Kills processes that a child has left behind; a supervisor does that itself.
    fn sweep(&self) {
        if !self.is_supervised {
            self.signal(Signal::KILL);
        }
    }

    /// Signals the process and its group.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It is fine if the group is already gone.
            let _ = kill_process_group(group, signal);
        }
    }
}

fn exit_text(ended: Option<ExitStatus>) -> String {
    match ended {
        Some(status) => format!("the server's process ended ({status})"),
        None => "the server's process ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt as _};

    use sluice_testkit::Folder;

    use super::find;

    #[test]
    fn programs_are_found_or_the_error_says_what_is_wrong() {
        let folder = Folder::new().unwrap();
        let path = folder.path().as_os_str();
        fs::write(folder.join("tool"), "#!/bin/sh\n").unwrap();
        let said = |name: &str, path: &OsStr| find(name, path).unwrap_err().to_string();
        assert!(said("tool", path).contains("not executable"));
        fs::set_permissions(folder.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("tool", path).unwrap(), folder.join("tool"));
        assert!(find(folder.join("tool").to_str().unwrap(), OsStr::new("")).is_ok());
        let missing = said("none", path);
        assert!(missing.contains("`none` is not found\nhint:"), "{missing}");
        assert!(said("/none/at/all", path).contains("not found"));
        assert!(said("", path).contains("no command"));
    }
}
