//! The gateway as the API sees it: what the file and the store together put in
//! force, and what was wrong with the last edit.

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use sluice_admin::{Eventual, FileProblem, InForce, Live, TakeError, Tool};
use sluice_gateway::{Configuration, Gateway};
use sluice_store::{Grant, Name, Store, TokenHash};

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
        let store = self.store.clone();
        let stored = tokio::task::spawn_blocking(move || {
            Ok::<_, sluice_store::StoreError>((
                store.servers()?,
                store.policies()?,
                store.grants_by_token()?,
            ))
        });
        let failed = |error: String| TakeError(format!("what is stored cannot be read: {error}"));
        let (servers, policies, grants) = stored
            .await
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))?;
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
            let is_same = |declared: &sluice_store::AttachedPolicy| {
                declared.server == policy.server && declared.name == policy.name
            };
            if next.policies.iter().any(is_same) {
                return Err(both("policy", policy.name.as_str()));
            }
            next.policies.push(policy);
        }
        next.grants.extend(grants);
        self.gateway.apply(&next).map_err(|error| TakeError(error.to_string()))?;
        let file_grants = config.grants.iter().map(|(_, grant)| grant.clone()).collect();
        self.in_force.store(Arc::new(InForce {
            servers: next.servers,
            policies: next.policies,
            file_grants,
        }));
        Ok(())
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
                category: tool.category,
                definition: tool.definition,
            });
            Some(shown.collect())
        })
    }

    fn metrics(&self) -> String {
        self.gateway.metrics()
    }
}
