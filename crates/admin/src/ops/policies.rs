//! Policies: checks them, and activates them on a server.

use sluice_policy::{Format, Policy, Problem, load};
use sluice_store::{Actor, AttachedPolicy, Edit, Name, PolicyVersion, Source};

use super::{Ops, Refused, build_edit};

/// Which policy the caller of a write expects to be active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Any, or none.
    Anything,
    /// Any version.
    Something,
    /// One of these versions.
    Versions(Vec<String>),
    /// No policy of this name.
    Nothing,
}

/// A policy that was just activated.
#[derive(Debug)]
pub(crate) struct PutPolicy {
    pub(crate) policy: AttachedPolicy,
    /// Whether there was no policy of its name before.
    pub(crate) is_new: bool,
}

impl Expected {
    fn admits(&self, current: Option<&AttachedPolicy>) -> bool {
        match (self, current) {
            (Expected::Anything, _)
            | (Expected::Something, Some(_))
            | (Expected::Nothing, None) => true,
            (Expected::Versions(versions), Some(current)) => versions.contains(&current.version),
            _ => false,
        }
    }
}

/// All problems in a policy's text, including its own failing tests.
fn find_problems(text: &[u8], format: Format) -> Vec<Problem> {
    match load(text, format) {
        Ok(policy) => run_tests(&policy, text),
        Err(problems) => problems,
    }
}

fn run_tests(policy: &Policy, text: &[u8]) -> Vec<Problem> {
    let tests = policy.run_tests().into_iter();
    tests
        .filter_map(|test| {
            let message = format!("test `{}` fails: {}", test.name, test.failure?);
            Some(Problem::at(text, test.offset, message))
        })
        .collect()
}

impl Ops {
    /// All problems in a policy, found on another thread: a large policy takes a while.
    pub(crate) async fn check_policy(
        &self,
        text: Vec<u8>,
        format: Format,
    ) -> Result<Vec<Problem>, Refused> {
        let checked = tokio::task::spawn_blocking(move || find_problems(&text, format));
        checked.await.map_err(|_| Refused::Lost)
    }

    /// The active policies of a server, by name.
    pub(crate) fn policies(&self, server: &Name) -> Result<Vec<AttachedPolicy>, Refused> {
        self.server(server)?;
        let in_force = self.live.in_force();
        let of_server = in_force.policies.iter().filter(|policy| policy.server == *server);
        let mut policies: Vec<_> = of_server.cloned().collect();
        policies.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(policies)
    }

    /// The active policy of a server with this name.
    pub(crate) fn policy(&self, server: &Name, name: &Name) -> Result<AttachedPolicy, Refused> {
        let found = self.policies(server)?.into_iter().find(|policy| policy.name == *name);
        found.ok_or_else(|| Refused::Missing(describe_policy(server, name)))
    }

    /// Every stored version of a policy, the newest first. A policy that the file declares has
    /// none.
    pub(crate) async fn policy_versions(
        &self,
        server: &Name,
        name: &Name,
    ) -> Result<Vec<PolicyVersion>, Refused> {
        let versions = self.store.policy_versions(server, name).await?;
        if versions.is_empty() {
            // Refuses the request if the server or the policy does not exist.
            self.policy(server, name)?;
        }
        Ok(versions)
    }

    /// Activates a policy.
    pub(crate) async fn put_policy(
        &self,
        server: &Name,
        name: &Name,
        text: Vec<u8>,
        format: Format,
        expected: &Expected,
        actor: &Actor,
    ) -> Result<PutPolicy, Refused> {
        self.find_changeable(server, name)?;
        let problems = self.check_policy(text.clone(), format).await?;
        let _writing = self.writing.lock().await;
        let current = self.find_changeable(server, name)?;
        if !expected.admits(current.as_ref()) {
            return Err(Refused::Stale(describe_policy(server, name)));
        }
        if !problems.is_empty() {
            return Err(Refused::Problems(problems));
        }
        let text = String::from_utf8(text)
            .map_err(|_| Refused::Invalid("a policy must be UTF-8".into()))?;
        let policy = AttachedPolicy {
            server: server.clone(),
            name: name.clone(),
            version: AttachedPolicy::version_of(&text),
            text,
            format,
            source: Source::Stored,
        };
        let is_new = current.is_none();
        self.take_policy(policy.clone(), current, actor).await?;
        Ok(PutPolicy { policy, is_new })
    }

    /// Stores and activates a policy. If that fails, the current one stays active.
    async fn take_policy(
        &self,
        policy: AttachedPolicy,
        current: Option<AttachedPolicy>,
        actor: &Actor,
    ) -> Result<(), Refused> {
        let (server, name) = (policy.server.clone(), policy.name.clone());
        let put = edit_policy(actor, &policy, "put into force");
        self.store.put_policy(policy.clone(), put).await?;
        let Err(error) = self.live.take_stored().await else { return Ok(()) };
        if let Some(current) = current {
            let back = edit_policy(actor, &current, "put back");
            self.store.put_policy(current, back).await?;
        } else {
            let back = edit_policy(actor, &policy, "taken back");
            self.store.remove_policy(&server, &name, back).await?;
        }
        Err(Refused::Conflict(error.to_string()))
    }

    /// Deactivates a policy. Its versions are kept.
    pub(crate) async fn remove_policy(
        &self,
        server: &Name,
        name: &Name,
        expected: &Expected,
        actor: &Actor,
    ) -> Result<(), Refused> {
        let _writing = self.writing.lock().await;
        let current = self.find_changeable(server, name)?;
        if !expected.admits(current.as_ref()) {
            return Err(Refused::Stale(describe_policy(server, name)));
        }
        let current = current.ok_or_else(|| Refused::Missing(describe_policy(server, name)))?;
        let removed = edit_policy(actor, &current, "taken out of force");
        self.store.remove_policy(server, name, removed).await?;
        if let Err(error) = self.live.take_stored().await {
            let back = edit_policy(actor, &current, "put back");
            self.store.put_policy(current, back).await?;
            return Err(Refused::Conflict(error.to_string()));
        }
        Ok(())
    }

    /// The active policy, if there is one; refused if the file declares it.
    fn find_changeable(
        &self,
        server: &Name,
        name: &Name,
    ) -> Result<Option<AttachedPolicy>, Refused> {
        let current = self.policies(server)?.into_iter().find(|policy| policy.name == *name);
        match current {
            Some(policy) if policy.source == Source::File => {
                Err(Refused::Declared(describe_policy(server, name)))
            }
            current => Ok(current),
        }
    }
}

fn describe_policy(server: &Name, name: &Name) -> String {
    format!("policy `{name}` of server `{server}`")
}

fn edit_policy(actor: &Actor, policy: &AttachedPolicy, what: &str) -> Edit {
    build_edit(actor, format!("{} {what}", describe_policy(&policy.server, &policy.name)))
}
