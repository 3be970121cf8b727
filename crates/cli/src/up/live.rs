//! The running gateway as the API sees it: the configuration of file and store together, and
//! the problems of the last reload.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use data_encoding::HEXLOWER;
use sluice_admin::{
    Eventual, FileProblem, FileVersion, HeadExport, InForce, Live, Running, TakeError, Tool,
};
use sluice_config::Config;
use sluice_gateway::{Configuration, Gateway};
use sluice_http::{HttpUpstream, address::Reach};
use sluice_policy::Timestamp;
use sluice_store::{AttachedPolicy, Grant, Key, Name, Secret, Snapshot, Store, TokenHash};

use super::{declared::Declared, demo::Demo, extends, heads::HeadExporter, history};
use crate::clock;

/// How to allow a private address.
const ALLOW_PRIVATE: &str = "list the range of that address in `allow_private` of `[upstreams]` in sluice.toml and restart the gateway; servers on this machine can also be declared there";

/// The running gateway and its configuration.
#[derive(Debug)]
pub(crate) struct LiveGateway {
    gateway: Gateway,
    store: Store,
    pub(crate) demo: Option<Demo>,
    pub(crate) heads: Arc<HeadExporter>,
    /// The configuration of the file. Only one task at a time changes it.
    file: tokio::sync::Mutex<Option<Config>>,
    in_force: ArcSwap<InForce>,
    /// Counts changes to single grants; locked while grants are applied.
    changes: Mutex<u64>,
    problems: Mutex<Vec<FileProblem>>,
    process: Process,
    /// The version of the active file contents.
    version: Mutex<FileVersion>,
}

/// What must be true of a configuration before it is put in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    Nothing,
    /// The file's policies can be had with all that they extend.
    SoundPolicies,
}

/// Facts that do not change while the gateway runs.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) started_at: Timestamp,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The addresses that stored servers may have.
    pub(crate) reach: Reach,
    /// The key for versions, so that nobody can guess secrets from them.
    pub(crate) versions: Key,
}

impl LiveGateway {
    pub(crate) fn new(
        gateway: Gateway,
        store: Store,
        demo: Option<Demo>,
        heads: Arc<HeadExporter>,
        process: Process,
    ) -> LiveGateway {
        let version = FileVersion {
            version: String::new(),
            loaded_at: process.started_at,
            reloaded_at: None,
            is_reload_ok: false,
        };
        LiveGateway {
            gateway,
            store,
            demo,
            heads,
            file: tokio::sync::Mutex::new(None),
            in_force: ArcSwap::default(),
            changes: Mutex::default(),
            problems: Mutex::default(),
            process,
            version: Mutex::new(version),
        }
    }

    /// Applies the contents of the file together with those of the store; returns its version.
    pub(crate) async fn take(&self, mut config: Config) -> Result<String, TakeError> {
        if let Some(demo) = &self.demo {
            demo.add_to(&mut config).map_err(TakeError)?;
        }
        let mut file = self.file.lock().await;
        let old = self.in_force.load_full();
        let unreadable = |error| TakeError(format!("the store cannot be used: {error}"));
        let declared = Declared::compare(&config, &self.store, &self.process.versions).await;
        let declared = declared.map_err(unreadable)?;
        declared.forget_earlier(&self.store).await.map_err(unreadable)?;
        self.put_in_force(&config, Demand::SoundPolicies).await?;
        // Only what was in force counts as declared.
        declared.note(&self.store).await.map_err(unreadable)?;
        let version = self.version_of(&config);
        *file = Some(config);
        let before = self.version().version.clone();
        if !before.is_empty() {
            let new = self.in_force.load_full();
            let policies = (&*old.policies, &*new.policies);
            history::record_reload(&self.store, (&before, &version), policies).await;
        }
        self.set_problems(Vec::new());
        let now = clock::now();
        let mut noted = self.version();
        let is_first = noted.version.is_empty();
        *noted = FileVersion {
            version: version.clone(),
            loaded_at: now,
            reloaded_at: (!is_first).then_some(now),
            is_reload_ok: true,
        };
        self.gateway.note_configured(&version, now);
        Ok(version)
    }

    /// A digest of the files' contents, in the same form as a policy's version.
    fn version_of(&self, config: &Config) -> String {
        let digest = sluice_config::digest(&config.files);
        let keyed = self.process.versions.derive(&digest);
        let (start, _) = keyed.as_bytes().split_at(8);
        HEXLOWER.encode(start)
    }

    fn version(&self) -> MutexGuard<'_, FileVersion> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that a reload failed, and why.
    pub(crate) fn refuse(&self, problems: Vec<FileProblem>) {
        let mut noted = self.version();
        noted.reloaded_at = Some(clock::now());
        noted.is_reload_ok = false;
        drop(noted);
        self.gateway.note_configuration_refused();
        self.set_problems(problems);
    }

    /// Records that a reload failed.
    pub(crate) async fn record_refusal(&self, first: Option<&FileProblem>) {
        let version = self.version().version.clone();
        history::record_refused_reload(&self.store, &version, first).await;
    }

    fn set_problems(&self, problems: Vec<FileProblem>) {
        if let Ok(mut kept) = self.problems.lock() {
            *kept = problems;
        }
    }

    async fn put_in_force(&self, config: &Config, demand: Demand) -> Result<(), TakeError> {
        loop {
            let count = self.grant_changes();
            let next = self.merge_with_store(config).await?;
            let problems = extends::find_problems(&next.policies);
            if demand == Demand::SoundPolicies {
                extends::refuse_broken(&next.policies, &self.in_force.load().policies)?;
            }
            let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            if *changes != count {
                // A grant was changed meanwhile, so the data just read may contain a token that is
                // no longer valid.
                continue;
            }
            self.gateway.apply(&next).map_err(|error| TakeError(error.to_string()))?;
            drop(changes);
            let file_grants = config.grants.iter().map(|(_, grant)| grant.clone()).collect();
            let Configuration { servers, policies, .. } = next;
            self.in_force.store(Arc::new(InForce { servers, policies, file_grants, problems }));
            return Ok(());
        }
    }

    fn grant_changes(&self) -> u64 {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges the file's configuration with the store's; they must not share names.
    async fn merge_with_store(&self, config: &Config) -> Result<Configuration, TakeError> {
        let stored = self.store.snapshot().await;
        let Snapshot { servers, policies, grants, .. } =
            stored.map_err(|error| TakeError(format!("the store cannot be read: {error}")))?;
        let mut next = Configuration {
            servers: config.servers.clone(),
            policies: config.policies.clone(),
            grants: config.grants.clone(),
        };
        for server in servers {
            if next.servers.iter().any(|declared| declared.name == server.name) {
                return Err(both("server", server.name.as_str()));
            }
            let for_all = config.policies_for_all.iter();
            next.policies.extend(for_all.map(|policy| policy.attach(&server.name)));
            next.servers.push(server);
        }
        for policy in policies {
            let is_same = |declared: &AttachedPolicy| {
                declared.server == policy.server && declared.name == policy.name
            };
            if next.policies.iter().any(is_same) {
                return Err(both("policy", policy.name.as_str()));
            }
            next.policies.push(policy);
        }
        next.grants.extend(grants);
        Ok(next)
    }
}

fn both(what: &str, name: &str) -> TakeError {
    TakeError(format!(
        "{what} `{name}` is in the configuration file and in the store\nhint: rename or remove one of them"
    ))
}

impl Live for LiveGateway {
    fn in_force(&self) -> Arc<InForce> {
        self.in_force.load_full()
    }

    fn take_stored(&self) -> Eventual<'_, Result<(), TakeError>> {
        Box::pin(async {
            let file = self.file.lock().await;
            match &*file {
                Some(config) => self.put_in_force(config, Demand::Nothing).await,
                None => Ok(()),
            }
        })
    }

    fn set_grant(&self, token: &TokenHash, grant: Option<&Grant>) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        *changes += 1;
        self.gateway.set_grant(token, grant);
    }

    fn store_uses(&self) -> Eventual<'_, ()> {
        Box::pin(self.gateway.store_uses())
    }

    fn problems(&self) -> Vec<FileProblem> {
        let mut all = self.problems.lock().map(|problems| problems.clone()).unwrap_or_default();
        all.extend(self.in_force.load().problems.iter().cloned());
        all
    }

    fn running(&self) -> Option<Running> {
        let Process { started_at, listen, admin, .. } = self.process;
        Some(Running { started_at, listen, admin, config: self.version().clone() })
    }

    fn tools<'a>(
        &'a self,
        server: &'a Name,
        fresh: bool,
    ) -> Eventual<'a, Result<Vec<Tool>, String>> {
        Box::pin(async move {
            let tools = self.gateway.tools(server, fresh).await?;
            let shown = tools.into_iter().map(|tool| Tool {
                name: tool.name,
                assessment: tool.assessment,
                definition: tool.definition,
            });
            Ok(shown.collect())
        })
    }

    fn check_address<'a>(&'a self, url: &'a Secret) -> Eventual<'a, Result<(), String>> {
        Box::pin(async {
            let server = HttpUpstream::new(url.expose(), self.process.reach.clone());
            let server = server.map_err(|error| error.to_string())?;
            let refused = server.check_address().await;
            refused.map_err(|why| format!("{why}\nhint: {ALLOW_PRIVATE}"))
        })
    }

    fn head_exports(&self) -> Vec<HeadExport> {
        self.heads.states()
    }

    fn metrics(&self) -> String {
        self.gateway.metrics()
    }
}
