//! Starts and stops processes, and reads their CPU time and memory.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::{clock, listen::READY};

/// How long a process may take to exit by itself: a gateway gives calls half a minute.
const EXIT_TIMEOUT: Duration = Duration::from_secs(40);

/// A child process, which is stopped on drop.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

/// In MiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident: f64,
    pub(crate) peak: f64,
}

impl Process {
    /// Starts this program again as one of its parts; returns its address.
    pub(crate) fn part(arguments: &[&str]) -> anyhow::Result<(Process, String)> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{}` does not start", arguments.join(" ")))?;
        let out = child.stdout.take();
        let process = Process { child };
        let mut line = String::new();
        BufReader::new(out.context("no output to read")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix(READY);
        let address = address.with_context(|| format!("`{}` ended", arguments.join(" ")))?;
        Ok((process, address.to_owned()))
    }

    /// Starts a program whose output goes to a file.
    pub(crate) fn start_logged(command: &mut Command, log: &Path) -> anyhow::Result<Process> {
        let out = fs::File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("`{}` does not start", command.get_program().display()))?;
        Ok(Process { child })
    }

    /// Starts a program with pipes for standard input and output.
    pub(crate) fn start_piped(
        command: &mut Command,
    ) -> anyhow::Result<(Process, ChildStdin, ChildStdout)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{}` does not start", command.get_program().display()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let process = Process { child };
        Ok((process, stdin.context("no input")?, stdout.context("no output")?))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if the process has exited.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the process has ended: {status}"),
        }
    }

    /// Asks the process to exit, and waits until it has.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.ask_to_end()
    }

    fn ask_to_end(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, Signal::TERM)?;
        let asked = clock::now();
        while self.child.try_wait()?.is_none() {
            if asked.elapsed() > EXIT_TIMEOUT {
                self.child.kill()?;
                bail!("the process does not end when asked to");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A profiled process (see scripts/profile) writes its counts only if it exits by itself.
        if let Err(error) = self.ask_to_end() {
            eprintln!("{error:#}");
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The CPU time of a process so far, over all its threads.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("no process {pid}"))?;
    // The name, in brackets, may contain spaces; state and numbers follow it.
    let (_, rest) = stat.rsplit_once(')').context("no name in `stat`")?;
    let ticks = rest
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis(ticks * 1000 / per_second))
}

/// The resident memory of a process, now and at its peak.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("no process {pid}"))?;
    let mebibytes = |key: &str| -> anyhow::Result<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let line = line.with_context(|| format!("no `{key}` in `status`"))?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    };
    Ok(Memory { resident: mebibytes("VmRSS:")?, peak: mebibytes("VmHWM:")? })
}

/// Waits until a process is almost idle, so that its startup and background work is not counted as
/// a cost of calls.
pub(crate) fn wait_until_idle(pid: u32) -> anyhow::Result<()> {
    const LOOK: Duration = Duration::from_millis(500);
    let mut before = cpu(pid)?;
    for _ in 0..600 {
        thread::sleep(LOOK);
        let after = cpu(pid)?;
        if after.saturating_sub(before) <= LOOK / 25 {
            return Ok(());
        }
        before = after;
    }
    bail!("process {pid} is still busy after five minutes without a call");
}

/// Raises the limit of open files of this process, and of those it starts, to the maximum.
pub(crate) fn raise_descriptor_limit() -> anyhow::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}
