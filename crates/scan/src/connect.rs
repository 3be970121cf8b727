//! Connects to a server, or starts it, and reads all pages of its lists.

use std::{fmt, sync::Arc, time::Duration};

use http::HeaderMap;
use sluice_http::HttpUpstream;
use sluice_stdio::{Errors, Launch, NotStarted, OnlyChild, Overheard, Program};
use sluice_upstream::{
    Upstream,
    client::{Client, ClientError, Declares},
};
use sluice_wire::{
    json::{Bounds, Document, LoneSurrogates, Value},
    mcp::META_SERVER,
};
use tokio::time::Instant;

use crate::wait::{OnWait, wait_for};

/// The longest answer that is read; a gateway allows no longer ones.
const LONGEST_ANSWER: usize = 64 << 20;
/// How long a server may take to answer a probe that it may not know.
const PROBE: Duration = Duration::from_secs(3);
/// The time limit for resources and prompts, which are only counted.
const COUNTED: Duration = Duration::from_secs(5);
/// How long to wait for the rest of its error output.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long to wait for it to exit.
const PARTING: Duration = Duration::from_millis(300);

/// The server to scan.
pub struct Target<'t> {
    pub place: Place,
    pub timeout: Duration,
    /// Called repeatedly while the server does not answer.
    pub on_wait: Option<&'t OnWait<'t>>,
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The location of the server.
pub enum Place {
    Command {
        program: Program,
        launch: Launch,
    },
    Url {
        server: HttpUpstream,
        /// Sent with every request.
        headers: HeaderMap,
    },
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Commands and headers may hold secrets.
        f.write_str(match self {
            Place::Command { .. } => "Command",
            Place::Url { .. } => "Url",
        })
    }
}

/// The answers of a server.
#[derive(Debug)]
pub struct Listing {
    pub name: String,
    pub version: String,
    pub revision: String,
    pub instructions: Option<String>,
    pub resources: Option<usize>,
    pub prompts: Option<usize>,
    pub pages: Vec<Document>,
}

/// A scanned server, ready to be stopped.
#[derive(Debug)]
pub struct Leaving(Option<Arc<OnlyChild>>);

impl Leaving {
    /// Stops a command that was started. If it takes too long, its supervisor stops it, and nobody
    /// waits.
    pub async fn end(self) {
        if let Some(child) = self.0 {
            child.close();
            let _ = tokio::time::timeout(PARTING, child.wait_exit()).await;
        }
    }
}

/// Why a scan failed.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
    #[error("the server did not answer in time")]
    Late,
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Why a scan failed, with the output of a command.
#[derive(Debug, thiserror::Error)]
#[error("{trouble}")]
pub struct AskError {
    pub trouble: Trouble,
    /// Whether the command exited by itself.
    pub has_ended: bool,
    /// The last lines it wrote to standard error.
    pub lines: Vec<String>,
    /// The first line of its standard output that is not JSON-RPC.
    pub stray: Option<String>,
}

impl From<Trouble> for AskError {
    fn from(trouble: Trouble) -> AskError {
        AskError { trouble, has_ended: false, lines: Vec::new(), stray: None }
    }
}

/// How the handshake is done.
#[derive(Debug, Clone, Copy)]
enum Way {
    Unsure,
    Legacy,
}

/// Scans the server, within its time limit.
pub async fn ask(target: &Target<'_>) -> Result<(Listing, Leaving), AskError> {
    let deadline = Instant::now() + target.timeout;
    match &target.place {
        Place::Url { server, headers } => {
            let server = Upstream::Http(server.clone());
            let asking = Box::pin(answers(&server, headers, Way::Unsure));
            let asking = tokio::time::timeout_at(deadline, asking);
            let listing = flat(wait_for(target.on_wait, None, asking).await)?;
            Ok((listing, Leaving(None)))
        }
        Place::Command { program, launch } => {
            let mut begun = Begun::start(program, launch)?;
            let mut asked = begun.ask(target, deadline, Way::Unsure).await;
            let mut has_ended = begun.has_ended_at(&asked).await;
            if has_ended {
                // Some servers exit on a request that they do not know.
                begun = Begun::start(program, launch)?;
                asked = begun.ask(target, deadline, Way::Legacy).await;
                has_ended = begun.has_ended_at(&asked).await;
            }
            match asked {
                Ok(listing) => Ok((listing, Leaving(Some(begun.child)))),
                Err(trouble) => Err(begun.fail(trouble, has_ended).await),
            }
        }
    }
}

/// A command that was started.
struct Begun {
    child: Arc<OnlyChild>,
    overheard: Overheard,
}

impl Begun {
    fn start(program: &Program, launch: &Launch) -> Result<Begun, Trouble> {
        let overheard = Overheard::default();
        let launch = Launch { errors: Errors::Keep(overheard.clone()), ..launch.clone() };
        let child = OnlyChild::start("scanned", &launch, program, LONGEST_ANSWER)?;
        Ok(Begun { child: Arc::new(child), overheard })
    }

    async fn ask(
        &self,
        target: &Target<'_>,
        deadline: Instant,
        way: Way,
    ) -> Result<Listing, Trouble> {
        let server = Upstream::Only(Arc::clone(&self.child));
        let headers = HeaderMap::new();
        let asking = Box::pin(answers(&server, &headers, way));
        let asking = tokio::time::timeout_at(deadline, asking);
        flat(wait_for(target.on_wait, Some(&self.overheard), asking).await)
    }

    /// Whether the command exited by itself instead of answering. After a timeout it is still
    /// running, and is not waited for.
    async fn has_ended_at<T>(&self, asked: &Result<T, Trouble>) -> bool {
        match asked {
            Ok(_) | Err(Trouble::Late) => false,
            Err(_) => tokio::time::timeout(LAST_WORDS, self.child.wait_exit()).await.is_ok(),
        }
    }

    /// Builds the error, with the last lines that the command wrote.
    async fn fail(self, trouble: Trouble, has_ended: bool) -> AskError {
        if has_ended {
            // Its output may still be in the pipe.
            let _ = tokio::time::timeout(LAST_WORDS, self.overheard.wait_closed()).await;
        }
        Leaving(Some(self.child)).end().await;
        let stray = self.overheard.first_stray().filter(|_| !has_ended).map(str::to_owned);
        let mut lines = self.overheard.lines();
        lines.retain(|line| Some(line) != stray.as_ref());
        AskError { trouble, has_ended, lines, stray }
    }
}

fn flat(
    asked: Result<Result<Listing, ClientError>, tokio::time::error::Elapsed>,
) -> Result<Listing, Trouble> {
    asked.map_err(|_| Trouble::Late)?.map_err(Trouble::Client)
}

fn bounds() -> Bounds {
    Bounds {
        bytes: LONGEST_ANSWER,
        string: LONGEST_ANSWER,
        number: LONGEST_ANSWER,
        nodes: 1 << 22,
        members: 1 << 22,
        depth: 128,
        lone_surrogates: LoneSurrogates::Replace,
    }
}

async fn answers(server: &Upstream, headers: &HeaderMap, way: Way) -> Result<Listing, ClientError> {
    // Some servers show some of their tools only to clients with certain capabilities.
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
    if !matches!(server.server(), Upstream::Only(_)) {
        client.goodbye().await;
    }
    let Introduction { name, version, instructions, .. } = said;
    Ok(Listing { name, version, revision, instructions, resources, prompts, pages })
}

/// What a server says about itself.
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
            // In the modern era it is under `_meta` of the result.
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

/// Counts the entries of a list; `None` if the server does not answer.
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
