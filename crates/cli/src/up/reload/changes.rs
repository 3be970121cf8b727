//! Watches the configuration's files, with a debounce so that they are complete.
//!
//! It watches folders, because editors replace files. Changes to other files in them delay nothing.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use sluice_config::WatchedFile;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout_at},
};

/// Editors write a file in several steps; it is read this long after the last one.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The file is read this long after the first step, even if more steps follow.
const LONGEST_DEBOUNCE: Duration = Duration::from_millis(500);
/// Our files are checked this long after a change to another file: a link may lead to it.
const OTHERS: Duration = Duration::from_millis(500);

/// Changes in the folders of the configuration's files.
pub(super) struct Changes {
    watcher: RecommendedWatcher,
    folders: BTreeSet<PathBuf>,
    ours: Arc<Mutex<Ours>>,
    /// One message is enough for any number of changes.
    own: mpsc::Receiver<()>,
    others: mpsc::Receiver<()>,
}

/// The names and folders by which a path is recognised as ours.
#[derive(Default)]
struct Ours {
    names: BTreeSet<OsString>,
    folders: BTreeSet<PathBuf>,
}

impl Ours {
    fn of(files: &[WatchedFile]) -> Ours {
        let mut ours = Ours::default();
        for WatchedFile { path, .. } in files {
            if path.is_dir() {
                ours.folders.insert(path.clone());
            }
            ours.names.extend(path.file_name().map(OsString::from));
        }
        ours
    }

    /// Compares file names only, because a folder can be spelt in several ways. A false
    /// match only means that our files are read sooner.
    fn concerns(&self, event: &Event) -> bool {
        let is_ours = |path: &PathBuf| {
            path.file_name().is_some_and(|name| self.names.contains(name))
                || path.parent().is_some_and(|folder| self.folders.contains(folder))
        };
        event.paths.is_empty() || event.need_rescan() || event.paths.iter().any(is_ours)
    }
}

impl Changes {
    pub(super) fn new() -> notify::Result<Changes> {
        let ours = Arc::new(Mutex::new(Ours::default()));
        let ((own_sender, own), (other_sender, others)) = (mpsc::channel(1), mpsc::channel(1));
        let known = Arc::clone(&ours);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            if event.kind.is_access() {
                return;
            }
            let is_own = known.lock().unwrap_or_else(PoisonError::into_inner).concerns(&event);
            let sender = if is_own { &own_sender } else { &other_sender };
            let _ = sender.try_send(());
        })?;
        Ok(Changes { watcher, folders: BTreeSet::new(), ours, own, others })
    }

    /// Watches these files from now on; returns whether any folder is new.
    pub(super) fn watch(&mut self, files: &[WatchedFile]) -> bool {
        *self.ours.lock().unwrap_or_else(PoisonError::into_inner) = Ours::of(files);
        let mut has_new = false;
        for WatchedFile { path, .. } in files {
            let folder = match path.parent() {
                _ if path.is_dir() => path.clone(),
                Some(folder) if folder != Path::new("") => folder.to_owned(),
                _ => PathBuf::from("."),
            };
            if self.folders.contains(&folder) {
                continue;
            }
            match self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => has_new |= self.folders.insert(folder),
                Err(error) => {
                    tracing::warn!(folder = %folder.display(), %error, "a folder cannot be watched");
                }
            }
        }
        has_new
    }

    /// Waits for a change and the debounce; returns `false` if no more changes will be reported.
    pub(super) async fn wait_until_settled(&mut self) -> bool {
        let is_own = tokio::select! {
            biased;
            sign = self.own.recv() => sign.map(|()| true),
            sign = self.others.recv() => sign.map(|()| false),
        };
        match is_own {
            None => return false,
            Some(true) => {}
            Some(false) => tokio::select! {
                sign = self.own.recv() => if sign.is_none() { return false },
                () = sleep(OTHERS) => return true,
            },
        }
        let latest = Instant::now() + LONGEST_DEBOUNCE;
        while Instant::now() < latest {
            let next = latest.min(Instant::now() + DEBOUNCE);
            match timeout_at(next, self.own.recv()).await {
                Ok(Some(())) => {}
                Ok(None) => return false,
                Err(_) => break,
            }
        }
        true
    }
}
