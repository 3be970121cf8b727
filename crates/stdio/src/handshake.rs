//! The handshake with a child, which detects its era: the child is probed with a modern
//! request, and one that does not know it is initialized as a legacy server.

use std::{
    sync::{
        Arc, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sluice_wire::{
    edit::quote,
    json::{Bounds, Document, Value},
    mcp::{Era, Revision, client_meta, is_modern_error_code},
};
use tokio::sync::Mutex;

use super::{
    child::{AskError, Asker, Asking, Audience, Child, Introduction},
    launch::{self, Launch, Limits, Program},
    output_log::Chatter,
    queue::{Answer, CallEvent},
    recent_output::LastWords,
    shared_child::{StartError, Started},
    shared_sessions::Sessions,
};

/// How long to wait for the answer to `server/discover` before `initialize` is tried as
/// well: some servers never answer unknown methods.
const PROBE: Duration = Duration::from_secs(3);
/// How long the handshake may take; some commands are downloaded first.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_mins(2);

pub(super) const LATE: &str = "the server has not started in time";

const VERSION: &str = env!("CARGO_PKG_VERSION");
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The data needed to start a child of one server.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) launch: Launch,
    pub(super) program: Program,
    pub(super) limits: Limits,
    pub(super) chatter: Chatter,
    pub(super) sessions: Arc<Sessions>,
    /// Whether the server is known to speak only the legacy era.
    pub(super) is_legacy: AtomicBool,
    /// Whether requests of the legacy era share a child.
    pub(super) is_shared: bool,
    /// Locked while a child is started.
    pub(super) kept: Mutex<LegacyChildren>,
    /// The stderr lines of the most recently started child, of any session.
    pub(super) newest: std::sync::Mutex<Option<LastWords>>,
    /// The most recently started shared child; only one starts at a time.
    pub(super) shared: std::sync::Mutex<Weak<Child>>,
}

/// Children that speak the legacy era.
#[derive(Debug, Default)]
pub(super) struct LegacyChildren {
    /// A child that was found to speak it during a probe, and is not used yet.
    spare: Option<Arc<Child>>,
    /// The child in use.
    used: Weak<Child>,
}

impl Core {
    /// Starts a child for an audience.
    pub(super) fn start(&self, audience: Audience) -> Result<Arc<Child>, Arc<str>> {
        let child = launch::launch(
            &self.launch,
            &self.program,
            self.limits.clone(),
            &self.chatter,
            audience,
        )
        .map_err(|error| Arc::<str>::from(error.to_string()))?;
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&child.words);
        Ok(child)
    }

    /// The last stderr lines of the newest child.
    pub(super) fn last_words(&self) -> Option<String> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.text()
    }

    fn start_shared(&self) -> Result<Arc<Child>, Arc<str>> {
        let child = self.start(Audience::Many(Arc::downgrade(&self.sessions)))?;
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&child);
        Ok(child)
    }

    /// Waits until a child has started, for a little less than the timeout of a request;
    /// `None` if it has not. The time-out must occur here, because only this code knows
    /// which child was waited for and can quote its stderr.
    pub(super) async fn in_time<T>(&self, starting: impl Future<Output = T>) -> Option<T> {
        match &self.limits.timeout {
            Some(timeout) => tokio::time::timeout(timeout.get().mul_f64(0.9), starting).await.ok(),
            None => Some(starting.await),
        }
    }

    /// The shared child, if it starts in time. Otherwise it continues to start.
    pub(super) async fn wait_until_started(
        &self,
        starting: impl Future<Output = Started>,
    ) -> Started {
        self.in_time(starting).await.unwrap_or_else(|| {
            let child = self.shared.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
            let child = child.filter(|child| !child.is_introduced());
            let why = child.map_or_else(|| LATE.to_owned(), |child| child.explain(LATE));
            Err(StartError::Failed(why.into()))
        })
    }
}

/// Starts a child for the modern era.
pub(super) async fn modern(core: Arc<Core>) -> Started {
    let mut kept = core.kept.lock().await;
    if core.is_legacy.load(Ordering::Relaxed) {
        return Err(StartError::Legacy);
    }
    // The legacy child in use can tell whether it is worth starting another.
    if let Some(used) = kept.used.upgrade().filter(|used| used.over().is_none())
        && !knows_discovery(&used).await
    {
        core.is_legacy.store(true, Ordering::Relaxed);
        return Err(StartError::Legacy);
    }
    let child = match probe(&core).await.map_err(StartError::Failed)? {
        Probed::Modern(child) => return Ok(child),
        Probed::Legacy(child) => child,
    };
    core.is_legacy.store(true, Ordering::Relaxed);
    if core.is_shared {
        kept.spare = Some(child);
    }
    Err(StartError::Legacy)
}

/// Starts a child for the legacy era.
pub(super) async fn legacy(core: Arc<Core>) -> Started {
    let mut kept = core.kept.lock().await;
    let child = match kept.spare.take().filter(|child| child.over().is_none()) {
        Some(child) => child,
        None => start_and_initialise(&core).await?,
    };
    kept.used = Arc::downgrade(&child);
    // Subscriptions of sessions survive a restart of the child.
    for uri in core.sessions.subscriptions() {
        let params = format!(r#""uri":{}"#, quote(&uri));
        if let Some(request) = request("resources/subscribe", &params) {
            // The answer is not needed.
            let _ = child.ask(&request, Asker::Gateway).await;
        }
    }
    Ok(child)
}

enum Probed {
    Modern(Arc<Child>),
    Legacy(Arc<Child>),
}

async fn probe(core: &Core) -> Result<Probed, Arc<str>> {
    let child = core.start_shared()?;
    let mut asking = discover(&child).await?;
    let probe = tokio::time::timeout(PROBE, answer_of(&mut asking)).await;
    match probe {
        Ok(Ok(answer)) if is_modern(&child, &answer) => return Ok(Probed::Modern(child)),
        Ok(_) => {
            drop(asking);
            let same = initialise(&child).await;
            return match same {
                Ok(()) => Ok(Probed::Legacy(child)),
                // Some servers exit when they get an unknown method.
                Err(_) => {
                    start_and_initialise(core).await.map(Probed::Legacy).map_err(start_error_text)
                }
            };
        }
        Err(_) => {}
    }
    // It may be slow to start, or ignore unknown methods: now both are tried at once.
    let discovered = async {
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, answer_of(&mut asking)).await {
            Ok(Ok(answer)) if is_modern(&child, &answer) => {}
            _ => std::future::pending().await,
        }
    };
    tokio::pin!(discovered);
    let refused = tokio::select! {
        biased;
        () = &mut discovered => return Ok(Probed::Modern(Arc::clone(&child))),
        initialised = initialise(&child) => match initialised {
            Ok(()) => return Ok(Probed::Legacy(Arc::clone(&child))),
            Err(why) => why,
        },
    };
    // The answer to `server/discover` may come after the one to `initialize`.
    let discovered = tokio::time::timeout(PROBE, discovered).await;
    discovered.map(|()| Probed::Modern(Arc::clone(&child))).map_err(|_| refused)
}

/// Whether a child in legacy use also supports the modern era.
async fn knows_discovery(child: &Arc<Child>) -> bool {
    let Ok(mut asking) = discover(child).await else { return false };
    let probe = tokio::time::timeout(PROBE, answer_of(&mut asking)).await;
    probe.is_ok_and(|answer| answer.is_ok_and(|answer| read_discovery(child, &answer).is_some()))
}

/// The era of a child that has not been initialized yet; `None` if it does not answer in
/// time. The probe also introduces a modern child.
pub(super) async fn era(child: &Arc<Child>, patience: Duration) -> Option<Era> {
    let mut asking = discover(child).await.ok()?;
    let answer = tokio::time::timeout(patience, answer_of(&mut asking)).await.ok()?.ok()?;
    if is_modern(child, &answer) {
        return Some(Era::Modern);
    }
    refuses_modern(&answer).then_some(Era::Legacy)
}

/// Whether the answer to a modern request shows that the child does not know that era.
pub(super) fn refuses_modern(answer: &Answer) -> bool {
    answer.code.as_deref().is_some_and(|code| !is_modern_error_code(code))
}

async fn discover(child: &Arc<Child>) -> Result<Asking, Arc<str>> {
    let meta = client_meta(Revision::V2026_07_28, "{}", ("sluicegate", VERSION));
    ask(child, "server/discover", &meta).await
}

/// Whether a child has answered that it speaks the modern era; the answer is stored.
fn is_modern(child: &Child, answer: &Answer) -> bool {
    read_discovery(child, answer)
        .is_some_and(|result| set_introduction(child, Era::Modern, &result))
}

/// The discovery result in an answer, if it lists a modern protocol version.
fn read_discovery(child: &Child, answer: &Answer) -> Option<Document> {
    let result = result_of(child, answer)?;
    let is_modern = result.root().get("supportedVersions").is_some_and(|versions| {
        let known = |version: Value<'_>| version.as_str().and_then(Revision::from_name);
        let mut known = versions.items().into_iter().flatten().filter_map(known);
        known.any(|revision| revision.era() == Era::Modern)
    });
    is_modern.then_some(result)
}

fn set_introduction(child: &Child, era: Era, result: &Document) -> bool {
    let introduction = Introduction { era, result: result.text().to_owned() };
    child.introduction.set(introduction).is_ok()
}

/// The result in an answer, as a document of its own.
pub(super) fn result_of(child: &Child, answer: &Answer) -> Option<Document> {
    if answer.code.is_some() {
        return None;
    }
    let message = Document::parse(answer.message.to_vec(), &child.bounds()).ok()?;
    let result = message.root().get("result")?.raw().to_owned();
    Document::parse(result, &child.bounds()).ok()
}

async fn start_and_initialise(core: &Core) -> Started {
    let child = core.start_shared().map_err(StartError::Failed)?;
    match initialise(&child).await {
        Ok(()) => Ok(child),
        Err(_) if child.over().is_none() && knows_discovery(&child).await => {
            Err(StartError::Modern)
        }
        Err(why) => Err(StartError::Failed(why)),
    }
}

/// The error text for people.
fn start_error_text(error: StartError) -> Arc<str> {
    match error {
        StartError::Failed(why) => why,
        StartError::Legacy | StartError::Modern => "the server changes its era".into(),
    }
}

/// Initializes a child that all clients share. No client capabilities are declared,
/// because the child could not say which client a request is for.
async fn initialise(child: &Arc<Child>) -> Result<(), Arc<str>> {
    let newest = Revision::V2025_11_25.name();
    let hello = format!(
        r#""protocolVersion":"{newest}","capabilities":{{}},"clientInfo":{{"name":"sluicegate","version":"{VERSION}"}}"#
    );
    let mut asking = ask(child, "initialize", &hello).await?;
    let answer = tokio::time::timeout(HANDSHAKE_TIMEOUT, answer_of(&mut asking)).await;
    let answer = answer.map_err(|_| child.explain("the server does not introduce itself"))??;
    let Some(result) = result_of(child, &answer) else {
        return Err(child.explain("the server refuses `initialize`").into());
    };
    set_introduction(child, Era::Legacy, &result);
    child.tell(READY.into()).await.map_err(|_| "the server does not read its input".into())
}

async fn ask(child: &Arc<Child>, method: &str, params: &str) -> Result<Asking, Arc<str>> {
    let request = request(method, params).ok_or("the request cannot be made")?;
    child.ask(&request, Asker::Gateway).await.map_err(|error| match error {
        AskError::Full => "the server does not read its input".into(),
        AskError::Over(why) => why,
    })
}

fn request(method: &str, params: &str) -> Option<Document> {
    let method = quote(method);
    let text = format!(r#"{{"jsonrpc":"2.0","id":0,"method":{method},"params":{{{params}}}}}"#);
    Document::parse(text, &Bounds::default()).ok()
}

/// Waits for the answer, skipping other messages.
pub(super) async fn answer_of(asking: &mut Asking) -> Result<Answer, Arc<str>> {
    loop {
        match asking.inbox.next().await {
            Some(CallEvent::Answer(answer)) => return Ok(answer),
            Some(CallEvent::Aside(_)) => {}
            Some(CallEvent::Failed(why)) => {
                let why = format!("{why} before it introduced itself");
                return Err(asking.child().explain(&why).into());
            }
            Some(CallEvent::Cancelled) => return Err("the request was cancelled".into()),
            None => return Err("the server says too much before it introduces itself".into()),
        }
    }
}
