//! Connects to a server: starts it or finds it, reads all pages of its lists, and explains
//! failures.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow};
use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_config::Environment;
use sluice_config::span;
use sluice_http::{HttpUpstream, address::Reach};
use sluice_stack::Guarded;
use sluice_stdio::{Errors, Launch, NOBODY_ASKED, OnlyChild, Overheard, Program};
use sluice_upstream::{
    Upstream,
    client::{Client, ClientError, Declares},
};
use sluice_wire::{
    json::{Bounds, Document, Value},
    mcp::META_SERVER,
};
use tokio::time::Instant;

use super::progress;
use crate::{output::visible, up, wrap::Place};

/// Answers may be as long as a gateway lets them be.
const LONGEST_ANSWER: usize = 64 << 20;
/// How long a server may think about a question it may not know.
const PROBE: Duration = Duration::from_secs(3);
/// How long resources and prompts may take, which are only counted.
const COUNTED: Duration = Duration::from_secs(5);
/// How long its last words are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long its end is waited for.
const PARTING: Duration = Duration::from_millis(300);
/// Lines of what it wrote that are shown.
const SHOWN: usize = 8;

/// What is to be asked.
pub(crate) struct Target {
    pub(crate) place: Place,
    /// Variables that a command is given besides those of this process.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    /// What is said to be waited for, on a terminal.
    pub(crate) waiting: Option<String>,
}

/// What a server has answered.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) revision: String,
    pub(super) instructions: Option<String>,
    pub(super) resources: Option<usize>,
    pub(super) prompts: Option<usize>,
    pub(super) pages: Vec<Document>,
}

/// A server that was asked and may be left.
#[derive(Debug)]
pub(crate) struct Leaving(Option<Arc<OnlyChild>>);

impl Leaving {
    /// Ends a command that was started. One that takes its time is left to its
    /// supervisor, so that nobody waits for it.
    pub(crate) async fn end(self) {
        if let Some(child) = self.0 {
            child.close();
            let _ = tokio::time::timeout(PARTING, child.wait_exit()).await;
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It cannot be started or connected to.
    Place(anyhow::Error),
    Late,
    Client(ClientError),
}

/// The same for people, with what it wrote and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{told}")]
pub(crate) struct AskError {
    pub(crate) trouble: Trouble,
    told: String,
}

impl From<anyhow::Error> for AskError {
    fn from(error: anyhow::Error) -> AskError {
        AskError { told: format!("{error:#}"), trouble: Trouble::Place(error) }
    }
}

/// How a server is introduced to.
#[derive(Debug, Clone, Copy)]
enum Way {
    Unsure,
    Legacy,
}

/// Asks the server, within its time.
pub(crate) async fn ask(
    target: &Target,
    environment: &Environment,
) -> Result<(Listing, Leaving), AskError> {
    let deadline = Instant::now() + target.timeout;
    match &target.place {
        Place::Url { url, headers } => {
            let server = Upstream::Http(open_url(url)?);
            let headers = build_headers(headers)?;
            let asking = Box::pin(answers(&server, &headers, Way::Unsure));
            let asking = tokio::time::timeout_at(deadline, asking);
            let asked = progress::during(target.waiting.as_deref(), None, asking).await;
            match flat(asked) {
                Ok(listing) => Ok((listing, Leaving(None))),
                Err(trouble) => Err(of_url(trouble, target)),
            }
        }
        Place::Command(command) => {
            let program = Program { command: command.clone(), env: target.env.clone() };
            let mut begun = Begun::start(&program, environment)?;
            let mut asked = begun.ask(target, deadline, Way::Unsure).await;
            let mut has_ended = begun.has_ended_at(&asked).await;
            if has_ended {
                // Some end when they are asked what they do not know.
                begun = Begun::start(&program, environment)?;
                asked = begun.ask(target, deadline, Way::Legacy).await;
                has_ended = begun.has_ended_at(&asked).await;
            }
            match asked {
                Ok(listing) => Ok((listing, Leaving(Some(begun.child)))),
                Err(trouble) => Err(begun.explain_failure(trouble, target, has_ended).await),
            }
        }
    }
}

/// A server anywhere: this goes where the user says.
fn open_url(url: &str) -> anyhow::Result<HttpUpstream> {
    let reach = Reach { allowed: vec!["0.0.0.0/0".parse()?, "::/0".parse()?], loopback: true };
    let shown = Guarded::url(url);
    // The URL may hold a secret, which the error would repeat.
    HttpUpstream::new(url, reach).ok().with_context(|| {
        format!("`{}` is no URL of a server: it must be `http://` or `https://`, a host and a path, without a user", shown.as_masked())
    })
}

/// A command that was started.
struct Begun {
    child: Arc<OnlyChild>,
    overheard: Overheard,
}

impl Begun {
    fn start(program: &Program, environment: &Environment) -> anyhow::Result<Begun> {
        let overheard = Overheard::default();
        let launch = Launch {
            // The user would otherwise have started the command with the same environment.
            environment: environment.for_wrapped(),
            errors: Errors::Keep(overheard.clone()),
            ..up::launch(environment)?
        };
        let child = OnlyChild::start("scanned", &launch, program, LONGEST_ANSWER)?;
        Ok(Begun { child: Arc::new(child), overheard })
    }

    async fn ask(&self, target: &Target, deadline: Instant, way: Way) -> Result<Listing, Trouble> {
        let server = Upstream::Only(Arc::clone(&self.child));
        let headers = HeaderMap::new();
        let asking = Box::pin(answers(&server, &headers, way));
        let asking = tokio::time::timeout_at(deadline, asking);
        let waiting = target.waiting.as_deref();
        flat(progress::during(waiting, Some(&self.overheard), asking).await)
    }

    /// Whether it has ended by itself, in place of an answer. One that is late
    /// runs still, and is not waited for any longer.
    async fn has_ended_at<T>(&self, asked: &Result<T, Trouble>) -> bool {
        match asked {
            Ok(_) | Err(Trouble::Late) => false,
            Err(_) => tokio::time::timeout(LAST_WORDS, self.child.wait_exit()).await.is_ok(),
        }
    }

    /// What went wrong, with the last that it wrote.
    async fn explain_failure(self, trouble: Trouble, target: &Target, has_ended: bool) -> AskError {
        if has_ended {
            // What it wrote may still be in the pipe.
            let _ = tokio::time::timeout(LAST_WORDS, self.overheard.wait_closed()).await;
        }
        Leaving(Some(self.child)).end().await;
        let stray = self.overheard.first_stray().filter(|_| !has_ended);
        let mut lines = self.overheard.lines();
        lines.retain(|line| Some(line.as_str()) != stray);
        let shown = lines.iter().skip(lines.len().saturating_sub(SHOWN));
        let shown: Vec<String> = shown.map(|line| format!("\n  {}", plain(line))).collect();
        let wrote = match (shown.concat().as_str(), has_ended) {
            ("", true) => "\nit wrote nothing that says why".to_owned(),
            ("", false) => String::new(),
            (lines, _) => format!("\nthe last it wrote:{lines}"),
        };
        let stray = stray.map(|line| {
            let line = plain(line);
            format!("\nit writes what is no JSON-RPC, so it seems not to speak MCP; the first line:\n  {line}")
        });
        let hint = match &trouble {
            _ if has_ended => {
                "\nhint: try the command by itself; it may need an argument or a variable"
            }
            Trouble::Late if stray.is_some() => {
                "\nhint: is it the command that starts the server over standard input and output?"
            }
            Trouble::Late => "\nhint: one that is downloaded first may need longer: `--timeout 5m`",
            Trouble::Client(_) | Trouble::Place(_) => "",
        };
        let stray = stray.unwrap_or_default();
        AskError {
            told: format!("{}{stray}{wrote}{hint}", describe_trouble(&trouble, target)),
            trouble,
        }
    }
}

/// A line without colours and what else steers a terminal.
pub(super) fn plain(line: &str) -> String {
    visible(&anstream::adapter::strip_str(line).to_string())
}

fn describe_trouble(trouble: &Trouble, target: &Target) -> String {
    match trouble {
        Trouble::Place(error) => format!("{error:#}"),
        Trouble::Late => {
            format!("the server did not answer within {}", span::format_span(target.timeout))
        }
        Trouble::Client(ClientError::Send(error)) => {
            let text = error.to_string();
            // For a command, there is no connection to speak of.
            text.strip_prefix("the connection was lost: ").unwrap_or(&text).to_owned()
        }
        // What it was told itself comes back.
        Trouble::Client(ClientError::Refused { message, .. }) if message == NOBODY_ASKED => {
            "the command repeats what it is told: it does not speak MCP".into()
        }
        Trouble::Client(error) => format!("the server cannot be scanned: {error}"),
    }
}

fn of_url(trouble: Trouble, target: &Target) -> AskError {
    let hint = match &trouble {
        Trouble::Client(ClientError::Status { status: 401 | 403, .. }) => {
            "\nhint: give its credential, such as `--header 'Authorization: env:NAME'`"
        }
        Trouble::Client(ClientError::Status { status: 300..=399, .. }) => {
            "\nhint: redirects are not followed: give the address that it leads to"
        }
        Trouble::Client(ClientError::Status { status: 404 | 405, .. }) => {
            "\nhint: many servers are at the path `/mcp` or `/sse`"
        }
        Trouble::Client(ClientError::Send(_)) => "\nhint: is it running, and is the address right?",
        _ => "",
    };
    AskError { told: format!("{}{hint}", describe_trouble(&trouble, target)), trouble }
}

fn flat(
    asked: Result<Result<Listing, ClientError>, tokio::time::error::Elapsed>,
) -> Result<Listing, Trouble> {
    asked.map_err(|_| Trouble::Late)?.map_err(Trouble::Client)
}

/// Headers as they are sent. None of their values is in any message.
fn build_headers(headers: &[(String, sluice_store::Secret)]) -> anyhow::Result<HeaderMap> {
    let mut sent = HeaderMap::new();
    for (name, value) in headers {
        let named = HeaderName::try_from(name.as_str())
            .with_context(|| format!("`{name}` is no name of a header"))?;
        let mut value = HeaderValue::try_from(value.expose())
            .map_err(|_| anyhow!("the value of header `{name}` cannot be sent"))?;
        value.set_sensitive(true);
        sent.insert(named, value);
    }
    Ok(sent)
}

fn bounds() -> Bounds {
    Bounds {
        bytes: LONGEST_ANSWER,
        string: LONGEST_ANSWER,
        number: LONGEST_ANSWER,
        nodes: 1 << 22,
        members: 1 << 22,
        depth: 128,
    }
}

async fn answers(server: &Upstream, headers: &HeaderMap, way: Way) -> Result<Listing, ClientError> {
    // Some servers show some of their tools only to clients that can be asked.
    let declares = Declares::Everything;
    let mut client = match way {
        Way::Unsure => Client::introduce_unsure(server, headers, bounds(), declares, PROBE).await?,
        Way::Legacy => Client::introduce_legacy(server, headers, bounds(), declares).await?,
    };
    let said = Introduction::of(&client);
    let pages = client.pages("tools/list").await?;
    let resources = count(&mut client, said.has_resources, "resources").await;
    let prompts = count(&mut client, said.has_prompts, "prompts").await;
    let revision = client.revision().to_owned();
    if !matches!(server, Upstream::Only(_)) {
        client.goodbye().await;
    }
    let Introduction { name, version, instructions, .. } = said;
    Ok(Listing { name, version, revision, instructions, resources, prompts, pages })
}

/// What a server says of itself.
struct Introduction {
    name: String,
    version: String,
    instructions: Option<String>,
    has_resources: bool,
    has_prompts: bool,
}

impl Introduction {
    fn of(client: &Client<'_>) -> Introduction {
        let result = client.introduction();
        let info = result.and_then(|result| {
            // In the modern era it stands beside the result's own members.
            let meta = result.get("_meta");
            let named = meta.and_then(|meta| meta.get(META_SERVER));
            result.get("serverInfo").or(named)
        });
        let text = |key| info.and_then(|info| info.get(key)?.as_str()).unwrap_or_default();
        let has = |key| result.and_then(|result| result.get("capabilities")?.get(key)).is_some();
        let instructions = result.and_then(|result| result.get("instructions")?.as_str());
        Introduction {
            name: text("name").to_owned(),
            version: text("version").to_owned(),
            instructions: instructions.filter(|text| !text.trim().is_empty()).map(str::to_owned),
            has_resources: has("resources"),
            has_prompts: has("prompts"),
        }
    }
}

/// How many of something a server lists; `None` if it does not say.
async fn count(client: &mut Client<'_>, is_offered: bool, what: &str) -> Option<usize> {
    if !is_offered {
        return Some(0);
    }
    let method = format!("{what}/list");
    let pages = tokio::time::timeout(COUNTED, client.pages(&method)).await.ok()?.ok()?;
    let listed = |page: &Document| {
        let list = page.root().get("result").and_then(|result| result.get(what));
        list.and_then(Value::items).map_or(0, Iterator::count)
    };
    Some(pages.iter().map(listed).sum())
}
