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

    /// How often processes are looked for that are still being started.
    const ROUNDS: u32 = 400;
    const PAUSE: Duration = Duration::from_millis(5);

    /// Makes this process the parent of what the processes below it leave behind.
    pub(in super::super) fn adopt() {
        // Without it, what leaves the group is left alone, as on other systems.
        let _ = set_child_subreaper(Some(getpid()));
    }

    /// Takes note of adopted processes that have ended, which nobody else waits for.
    /// The command itself is left to its own.
    pub(in super::super) fn reap(command: Pid) {
        let own = getpid();
        let found = parents();
        let children = found.iter().filter(|(pid, parent)| **parent == own && **pid != command);
        let ended = children.filter(|(pid, _)| {
            matches!(waitpid(Some(**pid), WaitOptions::NOHANG), Ok(Some(_)) | Err(_))
        });
        if ended.count() == 0 {
            // Something has ended that cannot be found: it is looked for again later.
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Ends everything below this process.
    pub(in super::super) fn end() {
        // A process that is being started at this moment is found in the next round.
        for _ in 0..ROUNDS {
            let below = below(getpid(), &living());
            if below.is_empty() {
                return;
            }
            kill(&below);
            thread::sleep(PAUSE);
        }
    }

    /// Ends processes, unless others have their numbers by now.
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

    /// All processes below one.
    fn below(root: Pid, parents: &HashMap<Pid, Pid>) -> Vec<Pid> {
        let is_below = |pid: &Pid| {
            // Bounded: the parents are not read atomically, so there may be a cycle.
            let mut line = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied());
            line.by_ref().skip(1).take(parents.len()).any(|parent| parent == root)
        };
        parents.keys().copied().filter(is_below).collect()
    }

    /// The parent of each process that runs.
    fn living() -> HashMap<Pid, Pid> {
        read(|state| state != "Z" && state != "X")
    }

    /// The parent of each process, also of those that have ended and are not waited for.
    fn parents() -> HashMap<Pid, Pid> {
        read(|_| true)
    }

    fn read(is_wanted: impl Fn(&str) -> bool) -> HashMap<Pid, Pid> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let number = |text: &str| text.parse().ok().and_then(Pid::from_raw);
        let found = processes.filter_map(|entry| {
            let pid = number(entry.file_name().to_str()?)?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name stands in brackets and may hold anything.
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
