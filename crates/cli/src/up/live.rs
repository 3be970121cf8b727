//! The gateway as the API sees it: what the file and the store together put in
//! force, and what was wrong with the last edit.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use sluice_admin::{Eventual, FileProblem, InForce, Live, TakeError, Tool};
use sluice_gateway::{Configuration, Gateway};
use sluice_store::{AttachedPolicy, Grant, Name, Snapshot, Store, TokenHash};

use super::demo::Demo;
use crate::config::Config;

/// The running gateway and what it was told.
#[derive(Debug)]
pub(crate) struct LiveGateway {
    gateway: Gateway,
    store: Store,
    pub(crate) demo: Option<Demo>,
    /// What the file says; changed only by one at a time.
    file: tokio::sync::Mutex<Option<Config>>,
    in_force: ArcSwap<InForce>,
    /// How often single grants were changed; held while any are put in force.
    changes: Mutex<u64>,
    problems: Mutex<Vec<FileProblem>>,
}

impl LiveGateway {
    pub(crate) fn new(gateway: Gateway, store: Store, demo: Option<Demo>) -> LiveGateway {
        LiveGateway {
            gateway,
            store,
            demo,
            file: tokio::sync::Mutex::new(None),
            in_force: ArcSwap::default(),
            changes: Mutex::default(),
            problems: Mutex::default(),
        }
    }

    /// Puts a file's content in force, together with what the store holds.
    pub(crate) async fn take(&self, mut config: Config) -> Result<(), TakeError> {
        if let Some(demo) = &self.demo {
            demo.add_to(&mut config).map_err(TakeError)?;
        }
        let mut file = self.file.lock().await;
        self.put_in_force(&config).await?;
        *file = Some(config);
        self.set_problems(Vec::new());
        Ok(())
    }

    /// Remembers why an edit was not taken.
    pub(crate) fn set_problems(&self, problems: Vec<FileProblem>) {
        if let Ok(mut kept) = self.problems.lock() {
            *kept = problems;
        }
    }

    async fn put_in_force(&self, config: &Config) -> Result<(), TakeError> {
        loop {
            let count = self.grant_changes();
            let next = self.merged(config).await?;
            let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            if *changes != count {
                // A grant was changed meanwhile, and what was read may bring
                // back a token that is worth nothing.
                continue;
            }
            self.gateway.apply(&next).map_err(|error| TakeError(error.to_string()))?;
            drop(changes);
            let file_grants = config.grants.iter().map(|(_, grant)| grant.clone()).collect();
            let Configuration { servers, policies, .. } = next;
            self.in_force.store(Arc::new(InForce { servers, policies, file_grants }));
            return Ok(());
        }
    }

    fn grant_changes(&self) -> u64 {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file declares and the store holds, which must not share names.
    async fn merged(&self, config: &Config) -> Result<Configuration, TakeError> {
        let stored = self.store.snapshot().await;
        let Snapshot { servers, policies, grants, .. } =
            stored.map_err(|error| TakeError(format!("what is stored cannot be read: {error}")))?;
        let mut next = Configuration {
            servers: config.servers.clone(),
            policies: config.policies.clone(),
            grants: config.grants.clone(),
        };
        for server in servers {
            if next.servers.iter().any(|declared| declared.name == server.name) {
                return Err(both("server", server.name.as_str()));
            }
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
                Some(config) => self.put_in_force(config).await,
                None => Ok(()),
            }
        })
    }

    fn set_grant(&self, token: &TokenHash, grant: Option<&Grant>) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        *changes += 1;
        self.gateway.set_grant(token, grant);
    }

    fn problems(&self) -> Vec<FileProblem> {
        self.problems.lock().map(|problems| problems.clone()).unwrap_or_default()
    }

    fn tools<'a>(&'a self, server: &'a Name, fresh: bool) -> Eventual<'a, Option<Vec<Tool>>> {
        Box::pin(async move {
            let tools = self.gateway.tools(server, fresh).await?;
            let shown = tools.into_iter().map(|tool| Tool {
                name: tool.name,
                assessment: tool.assessment,
                definition: tool.definition,
            });
            Some(shown.collect())
        })
    }

    fn metrics(&self) -> String {
        self.gateway.metrics()
    }
}
