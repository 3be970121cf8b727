//! Finds processes that a command leaves behind, such as daemons that have left its process
//! group.
//!
//! On Linux they become children of the supervisor, which finds them by their parents. Other
//! systems offer no way to find them.

#[cfg(target_os = "linux")]
pub(super) use linux::{adopt, end, reap};

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{adopt, end, reap};

#[cfg(target_os = "linux")]
mod linux {
    use std::{collections::HashMap, fs, thread, time::Duration};

    use rustix::process::{
        Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal,
        set_child_subreaper, waitpid,
    };

    /// How many times to look for processes that are still being started.
    const ROUNDS: u32 = 400;
    const PAUSE: Duration = Duration::from_millis(5);

    /// Makes this process the parent of orphans of its descendants.
    pub(in super::super) fn adopt() {
        // If this fails, processes that have left the group keep running, as on other systems.
        let _ = set_child_subreaper(Some(getpid()));
    }

    /// Reaps adopted processes that have exited, because nobody else waits for them. The command
    /// itself is not reaped here.
    pub(in super::super) fn reap(command: Pid) {
        let own = getpid();
        let found = parents();
        let children = found.iter().filter(|(pid, parent)| **parent == own && **pid != command);
        let ended = children.filter(|(pid, _)| {
            matches!(waitpid(Some(**pid), WaitOptions::NOHANG), Ok(Some(_)) | Err(_))
        });
        if ended.count() == 0 {
            // A process has exited but was not found: look again later.
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Kills all descendants of this process.
    pub(in super::super) fn end() {
        // A process that is just being started is found in the next round.
        for _ in 0..ROUNDS {
            let below = below(getpid(), &living());
            if below.is_empty() {
                return;
            }
            kill(&below);
            thread::sleep(PAUSE);
        }
    }

    /// Kills processes, unless their pids were reused meanwhile.
    fn kill(pids: &[Pid]) {
        let opened = pids.iter().filter_map(|pid| {
            let process = pidfd_open(*pid, PidfdFlags::empty()).ok()?;
            Some((*pid, process))
        });
        let opened: Vec<_> = opened.collect();
        let below = below(getpid(), &living());
        for (_, process) in opened.iter().filter(|(pid, _)| below.contains(pid)) {
            // The process may have exited already.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    /// All descendants of a process.
    fn below(root: Pid, parents: &HashMap<Pid, Pid>) -> Vec<Pid> {
        let is_below = |pid: &Pid| {
            // Bounded: the parents are not read atomically, so there may be a cycle.
            let mut line = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied());
            line.by_ref().skip(1).take(parents.len()).any(|parent| parent == root)
        };
        parents.keys().copied().filter(is_below).collect()
    }

    /// The parent of each running process.
    fn living() -> HashMap<Pid, Pid> {
        read(|state| state != "Z" && state != "X")
    }

    /// The parent of each process, including zombies.
    fn parents() -> HashMap<Pid, Pid> {
        read(|_| true)
    }

    fn read(is_wanted: impl Fn(&str) -> bool) -> HashMap<Pid, Pid> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let number = |text: &str| text.parse().ok().and_then(Pid::from_raw);
        let found = processes.filter_map(|entry| {
            let pid = number(entry.file_name().to_str()?)?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name is in brackets and may contain any character.
            let (_, rest) = stat.rsplit_once(") ")?;
            let (state, rest) = rest.split_once(' ')?;
            let parent = number(rest.split(' ').next()?)?;
            is_wanted(state).then_some((pid, parent))
        });
        found.collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use rustix::process::Pid;

    pub(in super::super) fn adopt() {}

    pub(in super::super) fn reap(_: Pid) {}

    pub(in super::super) fn end() {}
}
