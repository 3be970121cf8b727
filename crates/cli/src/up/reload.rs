//! Edits of the configuration and its policies, taken over while the gateway
//! runs. A bad edit changes nothing and says why.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use sluice_admin::FileProblem;
use tokio::sync::mpsc;

use super::live::LiveGateway;
use crate::{
    config::{Config, LoadError, Overrides},
    environment::Environment,
};

/// Editors write a file in several steps; this long after the last, it is read.
const SETTLED: Duration = Duration::from_millis(100);

/// Watches for as long as it is held.
pub(crate) struct Watching {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins to watch the files of a configuration.
pub(crate) fn watch(
    live: Arc<LiveGateway>,
    config: Config,
    overrides: Overrides,
    environment: Environment,
) -> Watching {
    let task = tokio::spawn(async move {
        if let Err(error) = follow(&live, config, &overrides, &environment).await {
            tracing::warn!(%error, "files cannot be watched: edits need a restart");
        }
    });
    Watching { task }
}

async fn follow(
    live: &LiveGateway,
    started_with: Config,
    overrides: &Overrides,
    environment: &Environment,
) -> notify::Result<()> {
    let (sender, mut events) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // One sign is enough, however many changes there are.
            let _ = sender.try_send(());
        }
    })?;
    let mut folders = BTreeSet::new();
    let mut files = started_with.files.clone();
    let mut seen = contents(&files);
    watch_folders(&mut watcher, &mut folders, &files);
    while events.recv().await.is_some() {
        while tokio::time::timeout(SETTLED, events.recv()).await.is_ok_and(|event| event.is_some())
        {
        }
        // The folders may hold other files, which change for other reasons.
        let now = contents(&files);
        if now == seen {
            continue;
        }
        seen = now;
        if let Some(named) = reload(live, &started_with, overrides, environment).await {
            seen = contents(&named);
            watch_folders(&mut watcher, &mut folders, &named);
            files = named;
        }
    }
    Ok(())
}

/// What the files say now, so that two readings can be told apart.
fn contents(files: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    files.iter().map(|file| std::fs::read(file).ok().or_else(|| held(file))).collect()
}

/// What the files of a folder say, if it is one.
fn held(folder: &Path) -> Option<Vec<u8>> {
    let entries = std::fs::read_dir(folder).ok()?;
    let paths: BTreeSet<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let mut held = Vec::new();
    for path in paths {
        held.extend_from_slice(path.as_os_str().as_encoded_bytes());
        held.push(0);
        held.append(&mut std::fs::read(&path).unwrap_or_default());
        held.push(0);
    }
    Some(held)
}

/// Folders are watched, because editors put a new file in an old one's place.
fn watch_folders(
    watcher: &mut RecommendedWatcher,
    folders: &mut BTreeSet<PathBuf>,
    files: &[PathBuf],
) {
    for file in files {
        let folder = match file.parent() {
            _ if file.is_dir() => file.clone(),
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        if folders.contains(&folder) {
            continue;
        }
        match watcher.watch(&folder, RecursiveMode::NonRecursive) {
            Ok(()) => drop(folders.insert(folder)),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "a folder cannot be watched");
            }
        }
    }
}

/// Reads the configuration again; the files it names now, if it can be read.
async fn reload(
    live: &LiveGateway,
    started_with: &Config,
    overrides: &Overrides,
    environment: &Environment,
) -> Option<Vec<PathBuf>> {
    let config = match Config::load(overrides, environment) {
        Ok(config) => config,
        Err(error) => {
            refuse(live, problems_of(&error));
            return None;
        }
    };
    for key in fixed(started_with, &config) {
        tracing::warn!(key, "a change of this key needs a restart");
    }
    let files = config.files.clone();
    match live.take(config).await {
        Ok(()) => tracing::info!("the configuration was read again and is in force"),
        Err(error) => {
            let file = files.first().map(|file| file.display().to_string()).unwrap_or_default();
            refuse(
                live,
                vec![FileProblem {
                    file,
                    line: 1,
                    column: 1,
                    message: error.to_string(),
                    hint: None,
                }],
            );
        }
    }
    Some(files)
}

fn refuse(live: &LiveGateway, problems: Vec<FileProblem>) {
    for problem in &problems {
        let FileProblem { file, line, column, message, .. } = problem;
        tracing::error!(
            file,
            line,
            column,
            problem = message,
            "an edit is not taken; what was in force still is"
        );
    }
    live.set_problems(problems);
}

fn problems_of(error: &LoadError) -> Vec<FileProblem> {
    let LoadError::Problems(files) = error else {
        return vec![FileProblem {
            file: String::new(),
            line: 1,
            column: 1,
            message: error.to_string(),
            hint: None,
        }];
    };
    let placed = files.iter().flat_map(|file| {
        file.problems.iter().map(|problem| FileProblem {
            file: file.source.name.clone(),
            line: problem.line,
            column: problem.column,
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        })
    });
    placed.collect()
}

/// Keys that were changed and cannot take effect while the gateway runs.
fn fixed(before: &Config, now: &Config) -> Vec<&'static str> {
    let changed = [
        ("listen", before.listen != now.listen),
        ("admin", before.admin != now.admin),
        ("data", before.data != now.data),
        ("allowed_hosts", before.allowed_hosts != now.allowed_hosts),
        ("allowed_origins", before.allowed_origins != now.allowed_origins),
        ("tls", before.tls != now.tls),
        ("limits", before.limits != now.limits),
        ("audit", before.audit != now.audit),
        ("upstreams", before.allow_private != now.allow_private),
    ];
    changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(key, _)| key).collect()
}
