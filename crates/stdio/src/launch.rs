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
use sluice_wire::arguments;
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

/// How long a child may take to end by itself, and then to end when told.
const GRACE: Duration = Duration::from_secs(2);
/// A supervisor does the same, and needs longer by as much.
const SUPERVISED: Duration = Duration::from_secs(8);
/// How long after its end something of its output may still arrive.
const DRAINED: Duration = Duration::from_secs(1);

/// Launch settings that all servers share.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// A program that runs the command given after `--`, and ends it together
    /// with all that it started when its own input closes: so it ends also if
    /// this process is killed. Without one, the command is started directly.
    pub supervisor: Option<Supervisor>,
    /// The environment before what a server declares. Nothing else is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// Values of that environment that must not be repeated in messages.
    pub secrets: Vec<String>,
    /// Where what a child writes for people goes.
    pub errors: Errors,
}

/// Where the error output of children goes.
#[derive(Debug, Clone, Default)]
pub enum Errors {
    /// Into the log, in bounded amounts.
    #[default]
    Log,
    /// To this process's own error output, as it is.
    Repeat,
    /// To somebody who reads the last of it, with what is no message of its
    /// other output.
    Keep(Overheard),
}

/// A supervisor, and its arguments before `-- COMMAND…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervisor {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// The command to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments. It is looked for on the path, unless there
    /// is a slash in its name.
    pub command: Vec<String>,
    /// Variables that are set besides those of [`Launch`].
    pub env: Vec<(String, String)>,
}

/// Resource limits of a child.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one message from it, and that may wait for one caller.
    pub message: usize,
    /// How long its answers are waited for. If it answers nothing, not even a `ping`, for
    /// several such times in a row, it is ended; without such a time it never is.
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

/// Starts a child. What it says is heard from now on.
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
    let (wrote, words) = last_words(launch, program);
    let most = limits.message;
    let child = Child::new(outbox, limits, chatter.clone(), audience, held, exited, words);
    let child = Arc::new(child);
    let writer = tokio::spawn(write(input, outgoing)).abort_handle();
    match (errors, &launch.errors) {
        (None, _) => wrote.close(),
        (Some(errors), Errors::Repeat) => {
            tokio::spawn(stderr::repeat(errors, wrote.clone()));
        }
        (Some(errors), Errors::Log) => {
            tokio::spawn(stderr::log(errors, chatter.clone(), Some(wrote.clone())));
        }
        // Its reader has it already.
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

/// Where the last that a child writes is kept, and how it may be repeated. What
/// somebody else keeps, they repeat themselves.
fn last_words(launch: &Launch, program: &Program) -> (Overheard, Option<LastWords>) {
    if let Errors::Keep(overheard) = &launch.errors {
        return (overheard.clone(), None);
    }
    let overheard = Overheard::default();
    let declared = program.env.iter().map(|(_, value)| value);
    let secrets = declared.chain(&launch.secrets).cloned();
    let secrets = secrets.chain(arguments::secrets(&program.command));
    let words = LastWords::new(overheard.clone(), secrets);
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
        // Ctrl-C at this process's terminal is not for the child.
        .process_group(0)
        .kill_on_drop(launch.supervisor.is_none());
    Ok(command)
}

/// The program of that name: found before it is started, so that what is wrong
/// can be told.
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
        // A relative folder would be one of wherever the gateway was started.
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).collect()
    };
    let mut files = candidates.into_iter().filter(|candidate| is_file(candidate)).peekable();
    if files.peek().is_none() {
        return Err(LaunchError::NotFound(name.to_owned()));
    }
    files.find(|file| runs(file)).ok_or_else(|| LaunchError::NotExecutable(name.to_owned()))
}

/// Writes messages to a child for as long as it takes them.
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
    /// The last that it wrote for people.
    wrote: Overheard,
}

impl Keeper {
    /// Keeps the process until it ends, is silent, or nobody holds it; then
    /// nothing of it is left. Tells why it ended, and how.
    async fn keep(
        mut self,
        mut silence: oneshot::Receiver<Silence>,
        mut is_held: watch::Receiver<()>,
        child: impl Fn() -> Option<Arc<Child>>,
    ) -> (String, Option<ExitStatus>) {
        let why = tokio::select! {
            ended = self.process.wait() => {
                // Its last words may still be in the pipe, and what it has
                // started may keep that open.
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
            _ = is_held.changed() => "nobody needs the server any more".to_owned(),
        };
        // Callers need not wait until the process is gone.
        if let Some(child) = child() {
            child.finish(&why);
        }
        (why, self.end().await)
    }

    /// Why its output is closed.
    async fn last_words(&mut self) -> String {
        let ended = tokio::time::timeout(DRAINED, self.process.wait()).await;
        if ended.is_ok() {
            let _ = tokio::time::timeout(DRAINED, self.wrote.wait_closed()).await;
        }
        ended.map_or_else(|_| "the server closed its output".into(), |ended| exit_text(ended.ok()))
    }

    /// Closes its input, then tells it to end, then makes it.
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
            .inspect_err(|error| tracing::warn!(%error, "a process could not be waited for"));
        self.sweep();
        // All that it wrote comes out before anybody is told that it has ended.
        let _ = tokio::time::timeout(DRAINED, self.wrote.wait_closed()).await;
        ended.ok()
    }

    /// Ends what a child has left behind, which a supervisor does by itself.
    fn sweep(&self) {
        if !self.is_supervised {
            self.signal(Signal::KILL);
        }
    }

    /// Signals the process and its group.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone is what is wanted.
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
    fn programs_are_found_or_what_is_wrong_is_said() {
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
