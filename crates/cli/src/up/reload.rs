//! Reloads the configuration and its policies while the gateway runs. If a reload fails, the
//! previous configuration stays active; the problems are logged, and the refusal is recorded once
//! for each content of the files.

mod changes;

use std::sync::Arc;

use sluice_admin::FileProblem;

use self::changes::Changes;
use super::live::LiveGateway;
use sluice_config::{Config, Environment, LoadError, Overrides, WatchedFile, digest};

/// Watches the files until it is dropped.
pub(crate) struct Watching {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts to watch the files of a configuration.
pub(crate) fn watch(
    live: Arc<LiveGateway>,
    config: Config,
    overrides: Overrides,
    environment: Environment,
) -> Watching {
    let task = tokio::spawn(async move {
        let given = overrides.clone();
        let overrides = pin(overrides, &config);
        let reloader = Reloader {
            live: &live,
            started_with: config,
            given,
            overrides,
            environment,
            refused: None,
        };
        if let Err(error) = reloader.follow().await {
            tracing::warn!(%error, "files cannot be watched: edits need a restart");
        }
    });
    Watching { task }
}

/// The settings to reload with: a file that is gone is not an empty one, and servers that commands
/// add stay in the data directory in use.
fn pin(overrides: Overrides, started_with: &Config) -> Overrides {
    let main = started_with.files.first().map(|file| file.path.clone());
    let config = overrides.config.or_else(|| main.filter(|path| path.exists()));
    Overrides { config, data: Some(started_with.data.clone()), ..overrides }
}

/// Reloads the configuration at each change of its files.
struct Reloader<'l> {
    live: &'l LiveGateway,
    started_with: Config,
    /// The settings that the gateway was started with.
    given: Overrides,
    /// The same for reloading.
    overrides: Overrides,
    environment: Environment,
    /// The digest of the files that were refused last, until a reload succeeds.
    refused: Option<String>,
}

impl Reloader<'_> {
    async fn follow(mut self) -> notify::Result<()> {
        let mut changes = Changes::new()?;
        let mut files = self.started_with.files.clone();
        loop {
            // If a folder is new, compare its files at once: earlier changes cause no event.
            if !changes.watch(&files) && !changes.wait_until_settled().await {
                return Ok(());
            }
            // Other files in the same folders change for other reasons.
            if files.iter().any(WatchedFile::has_changed) {
                files = self.reload().await;
            }
        }
    }

    /// Reloads the configuration. It returns the files to watch, even if the reload failed.
    async fn reload(&mut self) -> Vec<WatchedFile> {
        let (read, files) = Config::read(&self.overrides, &self.environment);
        let config = match read {
            Ok(config) => config,
            Err(error) => {
                self.refuse(&files, problems_of(&error)).await;
                return files;
            }
        };
        let data = sluice_config::data_directory(&self.given, &self.environment);
        if data.is_ok_and(|data| data != self.started_with.data) {
            tracing::warn!(key = "data", "a change of this key needs a restart");
        }
        for key in unchangeable_keys(&self.started_with, &config) {
            tracing::warn!(key, "a change of this key needs a restart");
        }
        match self.live.take(config).await {
            Ok(version) => {
                self.refused = None;
                tracing::info!(version, "the configuration was reloaded");
            }
            Err(error) => {
                let file = files.first().map(|file| file.path.display().to_string());
                let problem = problem_of_file(file.unwrap_or_default(), error.to_string());
                self.refuse(&files, vec![problem]).await;
            }
        }
        files
    }

    async fn refuse(&mut self, files: &[WatchedFile], problems: Vec<FileProblem>) {
        for problem in &problems {
            let FileProblem { file, line, column, message, .. } = problem;
            tracing::error!(
                file,
                line,
                column,
                problem = message,
                "config reload failed; keeping the previous configuration"
            );
        }
        let refused = Some(digest(files));
        if self.refused != refused {
            self.refused = refused;
            self.live.record_refusal(problems.first()).await;
        }
        self.live.refuse(problems);
    }
}

fn problems_of(error: &LoadError) -> Vec<FileProblem> {
    let files = match error {
        LoadError::Problems(files) => files,
        LoadError::Unreadable(path, why) => {
            return vec![problem_of_file(
                path.display().to_string(),
                format!("cannot be read: {why}"),
            )];
        }
        other => return vec![problem_of_file(String::new(), other.to_string())],
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

/// A problem without a position.
fn problem_of_file(file: String, message: String) -> FileProblem {
    FileProblem { file, line: 1, column: 1, message, hint: None }
}

/// The changed keys that need a restart to take effect.
fn unchangeable_keys(before: &Config, now: &Config) -> Vec<&'static str> {
    let changed = [
        ("listen", before.listen != now.listen),
        ("admin", before.admin != now.admin),
        ("allowed_hosts", before.allowed_hosts != now.allowed_hosts),
        ("allowed_origins", before.allowed_origins != now.allowed_origins),
        ("tls", before.tls != now.tls),
        ("limits", before.limits != now.limits),
        ("audit", before.audit != now.audit),
        ("upstreams", before.allow_private != now.allow_private),
    ];
    changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(key, _)| key).collect()
}
