//! Prints a scan as a page, as JSON and as Markdown, with the commands that restrict the server.
//! The crate `scan` connects and classifies.

mod explain;
mod json;
mod markdown;
mod next_steps;
mod page;
mod progress;

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_config::Environment;
use sluice_http::{HttpUpstream, address::Reach};
use sluice_scan::{Leaving, Listing, OnWait, Scan, Trouble};
use sluice_stack::Guarded;
use sluice_stdio::{Launch, Program};
use sluice_store::Secret;
use sluice_wire::secrets::Secrets;

use crate::{output::count_noun, up, wrap::Place};

pub(crate) use self::{
    json::json,
    markdown::markdown,
    next_steps::{NextSteps, display_place},
    page::{Manner, page},
};

/// The server to scan.
pub(crate) struct Target {
    pub(crate) place: Place,
    /// Additional environment variables for a command.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    /// The text of the progress line on a terminal.
    pub(crate) waiting: Option<String>,
}

/// Why a scan failed, for people, with the server's error output and a hint.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct AskError {
    /// `None` if the server could not be started or connected to.
    pub(crate) trouble: Option<Trouble>,
    text: String,
}

impl From<anyhow::Error> for AskError {
    fn from(error: anyhow::Error) -> AskError {
        AskError { text: format!("{error:#}"), trouble: None }
    }
}

/// Scans the server, within its time limit.
pub(crate) async fn ask(
    target: &Target,
    environment: &Environment,
) -> Result<(Listing, Leaving), AskError> {
    let place = open_place(target, environment)?;
    let waiting = target.waiting.as_deref().filter(|_| progress::has_terminal());
    let on_wait = waiting
        .map(|what| move |waited: Duration, last: Option<&str>| progress::show(what, waited, last));
    let on_wait = on_wait.as_ref().map(|show| show as &OnWait<'_>);
    let timeout = target.timeout;
    let asked = sluice_scan::Target { place, timeout, on_wait };
    let answered = sluice_scan::ask(&asked).await;
    if waiting.is_some() {
        progress::clear();
    }
    answered.map_err(|error| AskError {
        text: explain::explain(&error, &asked.place, timeout),
        trouble: Some(error.trouble),
    })
}

fn open_place(target: &Target, environment: &Environment) -> anyhow::Result<sluice_scan::Place> {
    Ok(match &target.place {
        Place::Url { url, headers } => {
            sluice_scan::Place::Url { server: open_url(url)?, headers: build_headers(headers)? }
        }
        Place::Command(command) => {
            // The user would have started the command with the same environment.
            let inherited = environment.for_wrapped();
            let launch = Launch { environment: inherited, ..up::launch(environment)? };
            let (command, env) = (command.clone(), target.env.clone());
            // What it writes is shown only to the user who started it.
            let program = Program { command, env, secrets: Secrets::default() };
            sluice_scan::Place::Command { program, launch }
        }
    })
}

/// Opens a URL. Every address is allowed: the user chose this one.
fn open_url(url: &str) -> anyhow::Result<HttpUpstream> {
    let reach = Reach { allowed: vec!["0.0.0.0/0".parse()?, "::/0".parse()?], loopback: true };
    let shown = Guarded::url(url);
    // The URL may hold a secret, so the error is not passed on.
    HttpUpstream::new(url, reach).ok().with_context(|| {
        format!("`{}` is not the URL of a server: it must be `http://` or `https://`, a host and a path, without a user", shown.as_masked())
    })
}

/// Builds the headers. Error messages never contain their values.
fn build_headers(headers: &[(String, Secret)]) -> anyhow::Result<HeaderMap> {
    let mut sent = HeaderMap::new();
    for (name, value) in headers {
        let named = HeaderName::try_from(name.as_str())
            .with_context(|| format!("`{name}` is not a valid header name"))?;
        let mut value = HeaderValue::try_from(value.expose())
            .map_err(|_| anyhow!("the value of header `{name}` cannot be sent"))?;
        value.set_sensitive(true);
        sent.insert(named, value);
    }
    Ok(sent)
}

/// A note about skipped tools, if there are any.
fn note_passed_over(scan: &Scan) -> Option<String> {
    let tools = count_noun(scan.nameless, "tool");
    (scan.nameless > 0).then(|| format!("Passed over: {tools} without a name."))
}
