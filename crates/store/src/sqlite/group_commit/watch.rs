//! Watches the files of the store. One that is removed, renamed, replaced or truncated while
//! it is open would go on being written where nobody finds it, so writes are refused.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Weak,
        mpsc::{self, RecvTimeoutError, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::GroupCommit;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The handle to the watching thread.
pub(super) struct Watch {
    /// Dropped to end the thread.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the thread, for files that are open.
    pub(super) fn start(paths: &[PathBuf], commits: Weak<GroupCommit>) -> io::Result<Watch> {
        let mut files: Vec<_> = paths.iter().map(|path| WatchedFile::new(path)).collect();
        let (end, ended) = mpsc::sync_channel::<()>(0);
        let run = move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let Some(commits) = commits.upgrade() else { return };
                commits.note_files(files.iter_mut().find_map(WatchedFile::find_fault));
            }
        };
        let thread = thread::Builder::new().name("store files".into()).spawn(run)?;
        Ok(Watch { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Watch {
    /// Waits for the thread: closing removes files.
    fn drop(&mut self) {
        self.end = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct WatchedFile {
    path: PathBuf,
    /// Its device and inode.
    identity: Option<(u64, u64)>,
    /// The largest size that it had. None of these files ever shrinks.
    size: u64,
}

impl WatchedFile {
    fn new(path: &Path) -> WatchedFile {
        let metadata = fs::metadata(path).ok();
        WatchedFile {
            path: path.to_owned(),
            identity: metadata.as_ref().map(|metadata| (metadata.dev(), metadata.ino())),
            size: metadata.map_or(0, |metadata| metadata.len()),
        }
    }

    /// What has become of the file, if it is not the one that is open.
    fn find_fault(&mut self) -> Option<String> {
        let became = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "removed or renamed",
            // A directory that cannot be entered for a moment is no loss.
            Err(_) => return None,
            Ok(found) if self.identity != Some((found.dev(), found.ino())) => "replaced",
            Ok(found) if found.len() < self.size => "truncated",
            Ok(found) => {
                self.size = found.len();
                return None;
            }
        };
        Some(format!(
            "`{}` was {became} while it was in use: stop the gateway, and put it back",
            self.path.display()
        ))
    }
}

impl GroupCommit {
    /// Refuses writes as long as there is such a fault.
    fn note_files(&self, fault: Option<String>) {
        let mut state = self.lock();
        if state.lost == fault {
            return;
        }
        let before = std::mem::replace(&mut state.lost, fault.clone());
        drop(state);
        if let Some(fault) = fault {
            tracing::error!("{fault}; calls are refused");
        } else {
            tracing::info!(?before, "the store's files are back: calls are served");
        }
    }
}
