//! The tool definitions of a server: fetched from the server itself, classified, and
//! cached until the server says that they changed.

mod fetch;

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use sluice_classify::{Assessment, Category, Definition, Siblings, classify, has_hidden};
use sluice_expiring::{ExpiringMap, Limits};
use sluice_http::{headers::PARAMETER_PREFIX, offload};
use sluice_policy::{Facts, ToolFacts};
use sluice_store::HiddenText;
use sluice_wire::{
    json::{Bounds, Document, Items, Value},
    rpc::Message,
};
use tokio::time::Instant;

use crate::{
    answer::{Checked, MOST_ITEMS, check_definition},
    exchange::Exchange,
    judge::called_tool,
    link::Link,
};

/// A list older than this is fetched again in the background.
const FRESH: Duration = Duration::from_mins(5);
/// How long to wait before asking the server again, after a failure or for a tool that is
/// not in the list.
///
/// A call of such a tool never waits for that: the time would tell it from a hidden one, which
/// is in the list.
const PAUSE: Duration = Duration::from_secs(2);
/// How often a list that is said to have changed is fetched in a row; then once each `PAUSE`.
const MOST_IN_A_ROW: u32 = 4;
/// Tasks whose grant is remembered. Above that, the oldest is forgotten.
const MOST_TASKS: usize = 10_000;
/// Definitions of one server whose findings are recorded while the gateway runs.
const MOST_FINDINGS: usize = 1000;

/// The known tools and tasks of one server.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    known: ArcSwapOption<ToolList>,
    /// Why the last attempt to list the tools failed, for operators.
    failure: ArcSwapOption<String>,
    /// Whether a tool or task was seen that does not match the list.
    is_stale: AtomicBool,
    /// Whether a background fetch was already started.
    was_tried: AtomicBool,
    /// Held while the list is fetched.
    asking: tokio::sync::Mutex<Asked>,
    /// Whether a fetch is scheduled for when the list may be fetched again.
    is_scheduled: AtomicBool,
    /// Whether the server's introduction said that it has no tasks.
    lacks_tasks: AtomicBool,
    /// The grant that began each task.
    tasks: Mutex<Tasks>,
    /// Digests of the definitions whose findings are recorded.
    found: Mutex<HashSet<u64>>,
}

/// When the list was fetched.
#[derive(Debug, Default)]
struct Asked {
    last: Option<Instant>,
    /// The time up to which fetches are used up, at one each `PAUSE`.
    used: Option<Instant>,
}

impl Asked {
    /// Counts a fetch; an error says how long to wait if there were too many.
    fn begin(&mut self) -> Result<(), Duration> {
        let now = Instant::now();
        let used = self.used.map_or(now, |used| used.max(now));
        let spare = PAUSE * (MOST_IN_A_ROW - 1);
        let early = used.saturating_duration_since(now + spare);
        if !early.is_zero() {
            return Err(early);
        }
        self.used = Some(used + PAUSE);
        Ok(())
    }
}

/// The grant of each known task.
#[derive(Debug)]
struct Tasks(ExpiringMap<String, Arc<str>>);

impl Default for Tasks {
    fn default() -> Tasks {
        // No idle limit: servers keep results of tasks for as long as they like.
        Tasks(ExpiringMap::new(Limits { entries: MOST_TASKS, ..Limits::NONE }))
    }
}

/// All tools of a server.
#[derive(Debug)]
pub(crate) struct ToolList {
    tools: HashMap<Box<str>, Known>,
    learnt: Instant,
}

#[derive(Debug)]
struct Known {
    facts: ToolFacts,
    assessment: Assessment,
    definition: Box<str>,
    mirrored: Vec<Mirrored>,
    /// Whether no client is shown the tool, because of what its definition contains.
    is_withheld: bool,
}

/// An argument that is repeated in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirrored {
    /// The header's name, lower case.
    pub(crate) header: String,
    pub(crate) argument: String,
}

impl ToolList {
    /// The facts about one tool.
    pub(crate) fn facts(&self, tool: &str) -> Facts<'_> {
        match self.tools.get(tool) {
            None => Facts::NotInList,
            Some(known) if known.is_withheld => Facts::Withheld,
            Some(known) => Facts::Known(&known.facts),
        }
    }

    /// The facts about a tool, if its definition is exactly this text.
    pub(crate) fn same(&self, tool: &str, definition: &str) -> Option<&ToolFacts> {
        let known = self.tools.get(tool).filter(|known| &*known.definition == definition)?;
        Some(&known.facts)
    }

    /// The definition as the server wrote it.
    pub(crate) fn definition(&self, tool: &str) -> Option<&str> {
        self.tools.get(tool).map(|known| &*known.definition)
    }

    /// The arguments of a tool that are repeated in headers.
    pub(crate) fn mirrored_arguments(&self, tool: &str) -> &[Mirrored] {
        self.tools.get(tool).map_or(&[], |known| &known.mirrored)
    }

    pub(crate) fn has(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// All tools, with the facts about them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &ToolFacts, &str)> {
        self.tools.iter().map(|(name, known)| (&**name, &known.facts, &*known.definition))
    }

    /// All tools, with their assessments.
    pub(crate) fn assessments(&self) -> impl Iterator<Item = (&str, &Assessment, &str)> {
        self.tools.iter().map(|(name, known)| (&**name, &known.assessment, &*known.definition))
    }

    /// Reads the pages of a list; an error says why they cannot be used.
    fn read(link: &Link, pages: &[Document]) -> Result<ToolList, String> {
        let mut listed = Vec::new();
        for page in pages {
            for tool in tools_of(page).ok_or("its list of tools cannot be used")? {
                listed.push((tool, Definition::from_tool(tool).ok_or("a tool has no name")?));
            }
        }
        if listed.len() > MOST_ITEMS {
            return Err(format!("it has more than {MOST_ITEMS} tools"));
        }
        let definitions: Vec<Definition<'_>> =
            listed.iter().map(|(_, definition)| *definition).collect();
        let siblings = Siblings::new(&link.name, &definitions);
        let mut tools = HashMap::new();
        for (tool, definition) in listed {
            let assessment = assess(link, tool, &definition, &siblings);
            let known = Known {
                facts: ToolFacts::new(&definition, assessment.category),
                assessment,
                definition: tool.raw().into(),
                mirrored: read_mirrored(tool),
                is_withheld: is_withheld(link, tool),
            };
            if tools.insert(definition.name.into(), known).is_some() {
                return Err("two tools have one name".into());
            }
        }
        Ok(ToolList { tools, learnt: Instant::now() })
    }
}

/// The tools in one page of a list.
fn tools_of(page: &Document) -> Option<Items<'_>> {
    page.root().get("result")?.get("tools")?.items()
}

/// The server's list of tools, if a message is a well-formed call and the decision may depend
/// on the list; it is fetched if it is needed and not known.
pub(crate) async fn look_up_tools(
    exchange: &Exchange,
    message: &Message<'_>,
) -> Option<Arc<ToolList>> {
    let tool = called_tool(exchange, message)?;
    let link = &exchange.server.link;
    let is_needed = exchange.policy.as_ref().is_some_and(|in_force| in_force.needs_definitions);
    let bounds = exchange.gateway.settings.answer_bounds();
    if is_needed || exchange.is_modern() {
        return Box::pin(Tools::list(link, &bounds, tool)).await;
    }
    let known = link.state.tools.tool_list();
    if known.is_none() {
        link.state.tools.learn_once(link, &bounds);
    }
    known
}

fn is_withheld(link: &Link, tool: Value<'_>) -> bool {
    let checked = check_definition(tool, "name", link.server.hidden_text);
    matches!(checked, Checked::Withheld(_))
}

/// Whether a tool is withheld for its name alone, also if the server's list is not known.
pub(crate) fn withholds_name(link: &Link, tool: &str) -> bool {
    link.server.hidden_text != HiddenText::Pass && has_hidden(tool)
}

/// Reads the facts about a tool that is not in the known list from its definition.
pub(crate) fn facts(link: &Link, tool: Value<'_>) -> Option<ToolFacts> {
    let definition = Definition::from_tool(tool)?;
    let alone = Siblings::new(&link.name, &[]);
    let category = assess(link, tool, &definition, &alone).category;
    Some(ToolFacts::new(&definition, category))
}

/// Classifies a tool. Built-in servers declare the category themselves.
fn assess<'d>(
    link: &Link,
    tool: Value<'d>,
    definition: &Definition<'d>,
    siblings: &Siblings<'d>,
) -> Assessment {
    let assessment = classify(definition, siblings);
    if !link.state.is_builtin() {
        return assessment;
    }
    let declared =
        tool.get("_meta").and_then(|meta| meta.get("sluicegate/category")).and_then(Value::as_str);
    match declared.and_then(Category::from_name) {
        Some(category) => assessment.with_declared_category(category),
        None => assessment,
    }
}

/// The arguments that a definition wants repeated in headers.
fn read_mirrored(tool: Value<'_>) -> Vec<Mirrored> {
    let properties = tool.get("inputSchema").and_then(|schema| schema.get("properties"));
    let properties = properties.and_then(Value::members).into_iter().flatten();
    let repeated = properties.filter_map(|(name, property)| {
        let header = property.get("x-mcp-header")?.as_str()?;
        Some(Mirrored {
            header: format!("{PARAMETER_PREFIX}{}", header.to_ascii_lowercase()),
            argument: name.as_str()?.to_owned(),
        })
    });
    repeated.collect()
}

impl Tools {
    /// The list that was fetched last.
    pub(crate) fn tool_list(&self) -> Option<Arc<ToolList>> {
        self.known.load_full()
    }

    /// Why the list could not be fetched.
    pub(crate) fn failure(&self) -> String {
        let failure = self.failure.load_full();
        failure.map_or_else(|| "it was not asked yet".into(), |why| (*why).clone())
    }

    /// A tool was seen that does not match the list.
    pub(crate) fn mark_stale(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }

    /// Notes whether a modern server's introduction declared tasks.
    pub(crate) fn note_introduction(&self, has_tasks: bool) {
        self.lacks_tasks.store(!has_tasks, Ordering::Relaxed);
    }

    /// Whether the server is known not to support tasks.
    pub(crate) fn lacks_tasks(&self) -> bool {
        self.lacks_tasks.load(Ordering::Relaxed)
    }

    /// The list, recent enough to judge a call of `tool`; `None` if it is unavailable.
    pub(crate) async fn list(
        link: &Arc<Link>,
        bounds: &Bounds,
        tool: &str,
    ) -> Option<Arc<ToolList>> {
        let tools = &link.state.tools;
        let known = tools.known.load_full();
        let is_stale = tools.is_stale.load(Ordering::Relaxed);
        match known {
            Some(known) if !is_stale => {
                let enough = if known.has(tool) { FRESH } else { PAUSE };
                // A request that is in progress already serves this call too.
                if known.learnt.elapsed() > enough && tools.asking.try_lock().is_ok() {
                    Tools::learn_in_background(link, bounds);
                }
                Some(known)
            }
            _ => Tools::learn(link, bounds).await,
        }
    }

    /// Fetches the list in a separate task.
    pub(crate) fn learn_in_background(link: &Arc<Link>, bounds: &Bounds) {
        let (link, bounds) = (Arc::clone(link), *bounds);
        tokio::spawn(async move { Tools::learn(&link, &bounds).await });
    }

    /// Fetches the list in the background for a call that does not need it, at most once.
    pub(crate) fn learn_once(&self, link: &Arc<Link>, bounds: &Bounds) {
        if !self.was_tried.swap(true, Ordering::Relaxed) {
            Tools::learn_in_background(link, bounds);
        }
    }

    /// Fetches the list once it may be fetched again, so that the last change is never missed.
    fn learn_later(link: &Arc<Link>, bounds: &Bounds, wait: Duration) {
        if link.state.tools.is_scheduled.swap(true, Ordering::Relaxed) {
            return;
        }
        let (link, bounds) = (Arc::clone(link), *bounds);
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            link.state.tools.is_scheduled.store(false, Ordering::Relaxed);
            Box::pin(Tools::learn(&link, &bounds)).await
        });
    }

    /// Fetches the list, unless another caller has just done so, or it was fetched too often.
    pub(crate) async fn learn(link: &Arc<Link>, bounds: &Bounds) -> Option<Arc<ToolList>> {
        let tools = &link.state.tools;
        let begun = Instant::now();
        let mut asked = tools.asking.lock().await;
        let is_stale = tools.is_stale.load(Ordering::Relaxed);
        if asked.last.is_some_and(|last| last > begun || (last.elapsed() < PAUSE && !is_stale)) {
            return tools.known.load_full();
        }
        if let Err(wait) = asked.begin() {
            drop(asked);
            Tools::learn_later(link, bounds, wait);
            return tools.known.load_full();
        }
        tools.is_stale.store(false, Ordering::Relaxed);
        let fetched = fetch::pages(link, bounds).await;
        asked.last = Some(Instant::now());
        let learnt = match fetched {
            Ok(pages) => Tools::read_apart(link, pages).await,
            Err(why) => Err(why),
        };
        match learnt {
            Ok(list) => {
                let list = Arc::new(list);
                tools.known.store(Some(Arc::clone(&list)));
                tools.failure.store(None);
                Some(list)
            }
            Err(why) => {
                let why = link.without_secrets(&why).into_owned();
                tracing::warn!(server = &*link.name, why, "tools could not be learnt");
                // The earlier list may no longer be right.
                tools.known.store(None);
                tools.failure.store(Some(Arc::new(why)));
                None
            }
        }
    }

    /// Whether a finding about a definition is to be recorded: each is recorded once, and no
    /// more after `MOST_FINDINGS`.
    pub(crate) fn note_finding(&self, definition: &str, done: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        (definition, done).hash(&mut hasher);
        let Ok(mut found) = self.found.lock() else { return false };
        found.len() < MOST_FINDINGS && found.insert(hasher.finish())
    }

    /// Reads and classifies the tools; a long list elsewhere.
    async fn read_apart(link: &Arc<Link>, pages: Vec<Document>) -> Result<ToolList, String> {
        let link = Arc::clone(link);
        let bytes = pages.iter().map(|page| page.text().len()).sum();
        let read = offload::by_size(bytes, move || ToolList::read(&link, &pages)).await;
        read.unwrap_or_else(|| Err("its list of tools cannot be used".to_owned()))
    }

    /// Remembers which grant a task belongs to.
    pub(crate) fn remember_task(&self, grant: &str, task: &str) {
        let Ok(mut tasks) = self.tasks.lock() else { return };
        tasks.0.insert(task.to_owned(), grant.into(), 0, Instant::now().into_std());
    }

    /// Whether a task is known to belong to this grant.
    pub(crate) fn is_task_of(&self, grant: &str, task: &str) -> bool {
        self.tasks
            .lock()
            .is_ok_and(|tasks| tasks.0.get(task).is_some_and(|owner| **owner == *grant))
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_TASKS, Tools};

    #[tokio::test]
    async fn the_oldest_task_is_forgotten_and_no_other() {
        let tools = Tools::default();
        for number in 0..=MOST_TASKS {
            tools.remember_task("alice", &number.to_string());
        }
        assert!(!tools.is_task_of("alice", "0"));
        for number in ["1".to_owned(), MOST_TASKS.to_string()] {
            assert!(tools.is_task_of("alice", &number) && !tools.is_task_of("bob", &number));
        }
    }
}
