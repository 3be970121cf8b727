//! Which tools a grant may call, and which grants may call a tool: for every tool, what the policy
//! engine says without a call.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use sluice_classify::{Category, Risk};
use sluice_policy::{Facts, ToolAccess, ToolFacts, Treatment, find_access};
use sluice_store::{AttachedPolicy, Grant, Name, Source};
use tokio::time::timeout;

use super::{Ops, Refused, explain::read_facts};
use crate::{clock, live::InForce};

/// How long servers that do not answer are waited for.
const LONGEST_LISTING: Duration = Duration::from_secs(10);

/// What rows to answer with. A field that is `None` matches every row.
#[derive(Default)]
pub(crate) struct AccessFilter {
    pub(crate) server: Option<Name>,
    pub(crate) tool: Option<String>,
    pub(crate) category: Option<Category>,
    pub(crate) risk: Option<Risk>,
    pub(crate) outcome: Option<Treatment>,
    /// Only tools of which some call may be forwarded.
    pub(crate) may_pass: bool,
}

/// Who calls: a grant, or the callers without a token of a server.
#[derive(Debug)]
pub(crate) struct ToolCaller {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) principal: Option<String>,
    servers: Vec<Name>,
    policy: Name,
}

/// The policy that decides.
#[derive(Debug)]
pub(crate) struct DecidingPolicy {
    pub(crate) name: Name,
    /// Its version, and those of what it extends.
    pub(crate) version: String,
    pub(crate) source: Source,
}

/// What happens to one caller's calls of one tool.
#[derive(Debug, Clone)]
pub(crate) struct AccessRow {
    pub(crate) caller: Arc<ToolCaller>,
    pub(crate) judged: Arc<JudgedTool>,
}

/// What a policy of a server says about one of its tools.
#[derive(Debug)]
pub(crate) struct JudgedTool {
    pub(crate) server: Name,
    pub(crate) tool: String,
    pub(crate) category: Category,
    pub(crate) risk: Risk,
    pub(crate) access: ToolAccess,
    /// `None` if there is none, or it is not in force.
    pub(crate) policy: Option<Arc<DecidingPolicy>>,
}

/// A page of rows, in the order of grants, servers and tools.
#[derive(Debug, Default)]
pub(crate) struct AccessPage {
    pub(crate) rows: Vec<AccessRow>,
    /// Servers whose tools cannot be listed, and why.
    pub(crate) silent: BTreeMap<Name, String>,
    /// The place of the last row, if more follow.
    pub(crate) next: Option<String>,
}

/// A tool, and its definition as the policy engine sees it.
struct ListedTool {
    name: String,
    category: Category,
    risk: Risk,
    facts: ToolFacts,
}

/// The tools of each server, or why they cannot be listed.
type Listed = BTreeMap<Name, Result<Vec<ListedTool>, String>>;

impl Ops {
    /// What happens to the calls of one grant, as if it could be used now.
    pub(crate) async fn grant_access(
        &self,
        id: &str,
        filter: AccessFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<AccessPage, Refused> {
        let caller = ToolCaller::from(&self.grant(id).await?);
        self.judge_callers(vec![caller], filter, after, limit).await
    }

    /// What happens to the calls of all grants that can be used now, and of callers without a token.
    pub(crate) async fn all_access(
        &self,
        filter: AccessFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<AccessPage, Refused> {
        if let Some(server) = &filter.server {
            self.server(server)?;
        }
        let grants = self.valid_grants(clock::now()).await?;
        let mut callers: Vec<_> = grants.iter().map(ToolCaller::from).collect();
        let in_force = self.live.in_force();
        callers.extend(in_force.servers.iter().filter_map(|server| {
            let policy = server.anonymous_policy.clone()?;
            let id = format!("anonymous:{}", server.name);
            let servers = vec![server.name.clone()];
            Some(ToolCaller { label: id.clone(), id, principal: None, servers, policy })
        }));
        callers.sort_by(|one, other| one.id.cmp(&other.id));
        self.judge_callers(callers, filter, after, limit).await
    }

    async fn judge_callers(
        &self,
        mut callers: Vec<ToolCaller>,
        filter: AccessFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<AccessPage, Refused> {
        let after = after.map(Place::parse).transpose()?;
        if let Some(after) = &after {
            callers.retain(|caller| caller.id >= after.caller);
        }
        let wanted = |server: &&Name| filter.server.as_ref().is_none_or(|only| only == *server);
        let servers: BTreeSet<Name> =
            callers.iter().flat_map(|caller| &caller.servers).filter(wanted).cloned().collect();
        let listed = self.list_all_tools(servers).await;
        let in_force = self.live.in_force();
        let judge = move || {
            let mut judge = AccessJudge { in_force, listed, judged: HashMap::new(), filter };
            judge.collect(callers, after.as_ref(), limit)
        };
        tokio::task::spawn_blocking(judge).await.map_err(|_| Refused::Lost)
    }

    async fn list_all_tools(&self, servers: BTreeSet<Name>) -> Listed {
        let list = |server: Name| async move {
            let tools = match timeout(LONGEST_LISTING, self.live.tools(&server, false)).await {
                Ok(tools) => tools,
                Err(_) => Err(format!("it took more than {} s", LONGEST_LISTING.as_secs())),
            };
            let tools = tools.map(|tools| {
                let listed = tools.iter().filter_map(|tool| {
                    let (category, risk) = (tool.assessment.category, tool.assessment.risk);
                    let facts = read_facts(tool)?;
                    Some(ListedTool { name: tool.name.clone(), category, risk, facts })
                });
                let mut listed: Vec<_> = listed.collect();
                listed.sort_by(|one, other| one.name.cmp(&other.name));
                listed
            });
            (server, tools)
        };
        join_all(servers.into_iter().map(list)).await.into_iter().collect()
    }
}

/// Judges tools, each once for every policy.
struct AccessJudge {
    in_force: Arc<InForce>,
    listed: Listed,
    /// By server and name of the policy.
    judged: HashMap<(Name, Name), Arc<[Arc<JudgedTool>]>>,
    filter: AccessFilter,
}

impl AccessJudge {
    fn collect(
        &mut self,
        callers: Vec<ToolCaller>,
        after: Option<&Place>,
        limit: usize,
    ) -> AccessPage {
        let mut page = AccessPage::default();
        for caller in callers.into_iter().map(Arc::new) {
            let mut servers = caller.servers.clone();
            servers.sort();
            for server in servers {
                match self.listed.get(&server) {
                    None => continue,
                    Some(Err(why)) => drop(page.silent.insert(server.clone(), why.clone())),
                    Some(Ok(_)) => {}
                }
                for judged in &*self.judge(&server, &caller.policy) {
                    let row = AccessRow { caller: Arc::clone(&caller), judged: Arc::clone(judged) };
                    if !self.filter.admits(judged)
                        || after.is_some_and(|after| !after.is_before(&row))
                    {
                        continue;
                    }
                    if page.rows.len() == limit {
                        page.next = page.rows.last().map(|last| Place::of(last).to_string());
                        return page;
                    }
                    page.rows.push(row);
                }
            }
        }
        page
    }

    /// What a policy says about each tool of a server.
    fn judge(&mut self, server: &Name, policy: &Name) -> Arc<[Arc<JudgedTool>]> {
        let key = (server.clone(), policy.clone());
        if let Some(judged) = self.judged.get(&key) {
            return Arc::clone(judged);
        }
        let all = &self.in_force.policies;
        let attached = all.iter().find(|one| one.server == *server && one.name == *policy);
        // A policy that lacks what it extends is not in force.
        let compiled = attached.and_then(|policy| policy.compile(all).ok());
        let deciding = attached.filter(|_| compiled.is_some()).map(|policy| {
            let AttachedPolicy { name, source, .. } = policy.clone();
            Arc::new(DecidingPolicy { name, version: policy.version_in_force(all), source })
        });
        let tools = self.listed.get(server).and_then(|tools| tools.as_ref().ok());
        let judged = tools.into_iter().flatten().map(|tool| {
            let facts = Facts::Known(&tool.facts);
            Arc::new(JudgedTool {
                server: server.clone(),
                tool: tool.name.clone(),
                category: tool.category,
                risk: tool.risk,
                access: find_access(compiled.as_ref(), &tool.name, facts),
                policy: deciding.clone(),
            })
        });
        let judged: Arc<[_]> = judged.collect();
        self.judged.insert(key, Arc::clone(&judged));
        judged
    }
}

impl AccessFilter {
    fn admits(&self, judged: &JudgedTool) -> bool {
        let outcome = judged.access.outcome;
        self.tool.as_ref().is_none_or(|tool| *tool == judged.tool)
            && self.category.is_none_or(|category| category == judged.category)
            && self.risk.is_none_or(|risk| risk == judged.risk)
            && self.outcome.is_none_or(|wanted| wanted == outcome)
            && (!self.may_pass || outcome.may_pass())
    }
}

impl From<&Grant> for ToolCaller {
    fn from(grant: &Grant) -> ToolCaller {
        ToolCaller {
            id: grant.id.clone(),
            label: grant.label.to_string(),
            principal: grant.principal.clone(),
            servers: grant.servers.clone(),
            policy: grant.policy.clone(),
        }
    }
}

/// The place of a row in the order of all.
struct Place {
    caller: String,
    server: String,
    tool: String,
}

impl Place {
    fn of(row: &AccessRow) -> Place {
        Place {
            caller: row.caller.id.clone(),
            server: row.judged.server.to_string(),
            tool: row.judged.tool.clone(),
        }
    }

    fn parse(text: &str) -> Result<Place, Refused> {
        let parts: Vec<_> = text.splitn(3, '/').collect();
        let [caller, server, tool] = parts.as_slice() else {
            return Err(Refused::Invalid("`cursor` is not one that this list gave out".into()));
        };
        let [caller, server, tool] = [caller, server, tool].map(|part| (*part).to_owned());
        Ok(Place { caller, server, tool })
    }

    fn is_before(&self, row: &AccessRow) -> bool {
        let place = (&*row.caller.id, row.judged.server.as_str(), &*row.judged.tool);
        (&*self.caller, &*self.server, &*self.tool) < place
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.caller, self.server, self.tool)
    }
}
