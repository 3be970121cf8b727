//! Exports signed heads of the audit log at intervals, to a file and a URL, so that somebody
//! elsewhere can check later that nothing was cut off. Failures hold up nobody: they are counted
//! and shown.

use std::{
    fs::OpenOptions,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use sluice_admin::HeadExport;
use sluice_config::Config;
use sluice_gateway::Gateway;
use sluice_http::{HttpUpstream, address::Reach};
use sluice_store::Store;

use crate::clock;

/// The time that one export may take.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The exports of a running gateway.
#[derive(Debug)]
pub(crate) struct HeadExporter {
    store: Store,
    gateway: Gateway,
    every: Duration,
    targets: Vec<Target>,
}

/// A place that heads are exported to, and how that goes.
#[derive(Debug)]
struct Target {
    place: ExportPlace,
    state: Mutex<HeadExport>,
}

#[derive(Debug)]
enum ExportPlace {
    File(PathBuf),
    Webhook(Webhook),
}

#[derive(Debug)]
struct Webhook {
    server: HttpUpstream,
    url: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl HeadExporter {
    pub(crate) fn new(
        config: &Config,
        store: Store,
        gateway: Gateway,
    ) -> anyhow::Result<HeadExporter> {
        let heads = &config.audit.heads;
        let file = heads.file.clone().map(ExportPlace::File);
        let webhook = Webhook::read(config)?.map(ExportPlace::Webhook);
        let targets = file.into_iter().chain(webhook).map(Target::new).collect();
        Ok(HeadExporter { store, gateway, every: heads.every, targets })
    }

    /// How the export to each place goes.
    pub(crate) fn states(&self) -> Vec<HeadExport> {
        self.targets.iter().map(|target| target.state().clone()).collect()
    }

    /// Exports at intervals, if there is a place to export to.
    pub(crate) async fn run(&self) {
        while !self.targets.is_empty() {
            self.export().await;
            tokio::time::sleep(self.every).await;
        }
    }

    /// Exports the present head once.
    pub(crate) async fn export(&self) {
        if self.targets.is_empty() {
            return;
        }
        let signed = self.store.sign_head().await;
        for target in &self.targets {
            let exported = match &signed {
                Ok(head) => target.place.take(head.text()).await,
                Err(error) => Err(error.to_string()),
            };
            self.gateway.note_head_export(target.place.name(), exported.is_ok(), clock::now());
            target.note(exported);
        }
    }
}

impl Target {
    fn new(place: ExportPlace) -> Target {
        let target = place.name();
        let state = HeadExport { target, exported_at: None, failures: 0, last_error: None };
        Target { place, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, HeadExport> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how an export went. Only the first failure in a row is logged.
    fn note(&self, exported: Result<(), String>) {
        let target = self.place.name();
        let mut state = self.state();
        match exported {
            Ok(()) => {
                state.exported_at = Some(clock::now());
                if state.last_error.take().is_some() {
                    tracing::info!(target, "heads of the audit log are exported again");
                }
            }
            Err(error) => {
                state.failures += 1;
                if state.last_error.is_none() {
                    tracing::warn!(target, %error, "the head of the audit log was not exported");
                }
                state.last_error = Some(error);
            }
        }
    }
}

impl ExportPlace {
    /// Its key in the configuration.
    fn name(&self) -> &'static str {
        match self {
            ExportPlace::File(_) => "file",
            ExportPlace::Webhook(_) => "url",
        }
    }

    async fn take(&self, line: String) -> Result<(), String> {
        let taken = async {
            match self {
                ExportPlace::File(path) => {
                    let (path, shown) = (path.clone(), path.display());
                    let append = tokio::task::spawn_blocking(move || append(&path, &line));
                    let appended = append.await.map_err(io::Error::other).flatten();
                    appended.map_err(|error| format!("`{shown}`: {error}"))
                }
                ExportPlace::Webhook(webhook) => webhook.post(line).await,
            }
        };
        let late = || Err(format!("it took longer than {} s", EXPORT_TIMEOUT.as_secs()));
        tokio::time::timeout(EXPORT_TIMEOUT, taken).await.unwrap_or_else(|_| late())
    }
}

/// Appends a line to a file, and has it on disk when this returns.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut text = format!("{line}\n");
    // The end of the last line may be missing, because the disk was full.
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.insert(0, '\n');
        }
    }
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

impl Webhook {
    fn read(config: &Config) -> anyhow::Result<Option<Webhook>> {
        let heads = &config.audit.heads;
        let Some(url) = &heads.url else { return Ok(None) };
        // The error could quote a secret.
        let wrong = || "`audit.heads.url` cannot be used";
        // The operator has named the address.
        let reach = Reach { allowed: config.allow_private.clone(), loopback: true };
        let server = HttpUpstream::new(url.expose(), reach).ok().with_context(wrong)?;
        let url = url.expose().parse().ok().with_context(wrong)?;
        let mut headers = Vec::new();
        for (name, value) in &heads.headers {
            let mut value = HeaderValue::from_str(value.expose())?;
            value.set_sensitive(true);
            headers.push((HeaderName::try_from(name)?, value));
        }
        Ok(Some(Webhook { server, url, headers }))
    }

    /// Posts a line; only a status of success is one.
    async fn post(&self, line: String) -> Result<(), String> {
        let mut request = Request::new(Bytes::from(line));
        *request.method_mut() = Method::POST;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        request.headers_mut().extend(self.headers.iter().cloned());
        let answer = self.server.send_to(&self.url, &request).await;
        let status = answer.map_err(|error| error.to_string())?.status();
        if status.is_success() {
            return Ok(());
        }
        Err(format!("the receiver answered with status {}", status.as_u16()))
    }
}
