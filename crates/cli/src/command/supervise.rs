//! `sluice supervise`: runs a server's command for the gateway. When the gateway exits for any
//! reason, it stops the command with all its child processes.
//!
//! The command reads the gateway's pipe itself; the supervisor only watches it.

mod orphans;

use std::{
    ffi::OsString,
    io,
    os::{
        fd::AsFd as _,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Command, ExitStatus},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use clap::Args;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

use crate::output::{Done, complain};

/// How long the command may take to exit by itself, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct Supervise {
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The events that the supervisor waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The other end of standard input was closed.
    Closed,
    Exited,
}

impl Supervise {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Ok(Done::Misused);
        };
        orphans::adopt();
        // With its own process group, the command can be stopped together with its child processes.
        let spawned = Command::new(program).args(arguments).process_group(0).spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                let is_missing = error.kind() == io::ErrorKind::NotFound;
                let shown = program.display().to_string();
                let error = anyhow::Error::new(error);
                complain(&error.context(format!("command `{shown}` cannot be started")));
                // Shells return these codes for a command that is missing or not executable.
                return Ok(Done::As(if is_missing { 127 } else { 126 }));
            }
        };
        let group = Pid::from_child(&child);
        let (sender, events) = mpsc::channel();
        watch_input(sender.clone());
        watch_child(group, sender);
        if events.recv() != Ok(Event::Exited) {
            end(group, &events);
        }
        // The pid cannot be reused until it is waited for below.
        signal(group, Signal::KILL);
        orphans::end();
        Ok(Done::As(code(child.wait()?)))
    }
}

/// Sends an event when the other end of standard input is closed. It reads nothing.
fn watch_input(sender: Sender<Event>) {
    thread::spawn(move || {
        let input = io::stdin();
        loop {
            let mut watched = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::empty())];
            let polled = poll(&mut watched, None);
            let is_interrupted = polled == Err(rustix::io::Errno::INTR);
            let is_closed = watched.iter().any(|one| !one.revents().is_empty());
            if is_closed || (polled.is_err() && !is_interrupted) {
                let _ = sender.send(Event::Closed);
                return;
            }
        }
    });
}

/// Sends an event when the command has exited, without reaping it.
fn watch_child(group: Pid, sender: Sender<Event>) {
    thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let now = options | WaitIdOptions::NOHANG;
        // There may be other children too, which the system has reparented to this process.
        while let Ok(_) | Err(rustix::io::Errno::INTR) = waitid(WaitId::All, options) {
            match waitid(WaitId::Pid(group), now) {
                Ok(None) => orphans::reap(group),
                Ok(Some(_)) | Err(_) => break,
            }
        }
        let _ = sender.send(Event::Exited);
    });
}

/// Waits for the command to exit, then sends SIGTERM, and at last SIGKILL.
fn end(group: Pid, events: &Receiver<Event>) {
    for forced in [Signal::TERM, Signal::KILL] {
        if events.recv_timeout(GRACE) == Ok(Event::Exited) {
            return;
        }
        signal(group, forced);
    }
    let _ = events.recv();
}

fn signal(group: Pid, signal: Signal) {
    // An error means that the group is gone already.
    let _ = kill_process_group(group, signal);
}

/// The exit code in the convention of shells.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
