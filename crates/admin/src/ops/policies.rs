//! Policies: checks them, and activates them on a server.

use std::time::Duration;

use sluice_policy::{Format, Policy, Problem, ToolFacts, find_warnings, load};
use sluice_store::{Actor, AttachedPolicy, Edit, Name, PolicyVersion, Source};

use tokio::time::timeout;

use super::{Expected, Ops, Refused, build_edit, refuse_missing};

/// How long the answer about a policy that was put in force waits for the server's tools.
const LONGEST_LISTING: Duration = Duration::from_secs(5);

/// A policy that was just activated.
#[derive(Debug)]
pub(crate) struct PutPolicy {
    pub(crate) policy: AttachedPolicy,
    /// Whether there was no policy of its name before.
    pub(crate) is_new: bool,
}

/// All problems of a policy among the others of its server, including its own failing tests, and
/// what would become of those that extend it.
fn find_problems(policy: &AttachedPolicy, others: &[AttachedPolicy]) -> Vec<Problem> {
    let text = policy.text.as_bytes();
    match policy.compile(others) {
        Ok(compiled) => {
            let mut problems = run_tests(&compiled, text);
            let broken = find_broken_users(policy, others);
            problems.extend(broken.into_iter().map(|why| Problem::at(text, 0, why)));
            problems
        }
        Err(problems) => problems,
    }
}

/// Policies that extend this one, and that could no longer be in force with it.
fn find_broken_users(policy: &AttachedPolicy, others: &[AttachedPolicy]) -> Vec<String> {
    let is_other = |one: &&AttachedPolicy| one.server != policy.server || one.name != policy.name;
    let mut after: Vec<_> = others.iter().filter(is_other).cloned().collect();
    after.push(policy.clone());
    let users = find_users(&policy.server, &policy.name, &after);
    let broken = users.into_iter().filter_map(|user| {
        let why = find_fault(user, &after)?;
        // What is broken already may be in repair.
        let was_sound = find_fault(user, others).is_none();
        was_sound.then(|| format!("policy `{}`, which extends this one: {why}", user.name))
    });
    broken.collect()
}

/// The first problem or failing test of a policy.
fn find_fault(policy: &AttachedPolicy, others: &[AttachedPolicy]) -> Option<String> {
    let problems = match policy.compile(others) {
        Ok(compiled) => run_tests(&compiled, policy.text.as_bytes()),
        Err(problems) => problems,
    };
    problems.into_iter().next().map(|problem| problem.message)
}

/// The policies of a server that extend this one, directly or through others.
fn find_users<'p>(
    server: &Name,
    name: &Name,
    all: &'p [AttachedPolicy],
) -> Vec<&'p AttachedPolicy> {
    let of_server = all.iter().filter(|policy| policy.server == *server && policy.name != *name);
    of_server.filter(|policy| policy.depends_on(name.as_str(), all)).collect()
}

/// Their names, for a sentence.
fn list_names(users: &[&AttachedPolicy]) -> String {
    users.iter().map(|user| format!("`{}`", user.name)).collect::<Vec<_>>().join(", ")
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
    /// All problems in a policy that is not attached to a server yet. What it extends is looked for
    /// on the server, if one is named.
    pub(crate) async fn check_policy(
        &self,
        text: Vec<u8>,
        format: Format,
        server: Option<&Name>,
    ) -> Result<Vec<Problem>, Refused> {
        let Some(server) = server else {
            let checked = tokio::task::spawn_blocking(move || match load(&text, format) {
                Ok(policy) => run_tests(&policy, &text),
                Err(problems) => problems,
            });
            return checked.await.map_err(|_| Refused::Lost);
        };
        self.server(server)?;
        let name = super::parse_name(NAME_OF_CHECKED)?;
        match attach_bytes(server, &name, text, format) {
            Ok(policy) => self.check_attached(policy).await,
            // It is not UTF-8, which is one of its problems.
            Err(text) => Ok(load(&text, format).err().unwrap_or_default()),
        }
    }

    /// All problems of a policy among the active ones, found on another thread: a large policy takes
    /// a while.
    async fn check_attached(&self, policy: AttachedPolicy) -> Result<Vec<Problem>, Refused> {
        let in_force = self.live.in_force();
        let check = move || find_problems(&policy, &in_force.policies);
        tokio::task::spawn_blocking(check).await.map_err(|_| Refused::Lost)
    }

    /// What loads and has no effect in a policy, for the tools of a server if one is named.
    pub(crate) async fn find_policy_warnings(
        &self,
        text: Vec<u8>,
        format: Format,
        server: Option<&Name>,
    ) -> Result<Vec<Problem>, Refused> {
        let tools = match server {
            Some(server) => Some(self.read_definitions(server).await?),
            None => None,
        };
        let find = move || find_warnings(&text, format, tools.as_deref());
        tokio::task::spawn_blocking(find).await.map_err(|_| Refused::Lost)
    }

    /// The same for a policy that was put in force. If the server does not list its tools soon, that
    /// is one of the warnings.
    pub(crate) async fn find_warnings_in_force(&self, policy: &AttachedPolicy) -> Vec<Problem> {
        let listing = timeout(LONGEST_LISTING, self.read_definitions(&policy.server));
        let (tools, why) = match listing.await {
            Ok(Ok(tools)) => (Some(tools), None),
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("it took more than {} s", LONGEST_LISTING.as_secs()))),
        };
        let (text, format) = (policy.text.clone().into_bytes(), policy.format);
        let find = move || find_warnings(&text, format, tools.as_deref());
        let mut warnings = tokio::task::spawn_blocking(find).await.unwrap_or_default();
        if let Some(why) = why {
            let server = &policy.server;
            let message =
                format!("the policy was not compared with the tools of server `{server}`: {why}");
            warnings.insert(0, Problem::at(policy.text.as_bytes(), 0, message));
        }
        warnings
    }

    /// The definitions of a server's tools, as the policy engine sees them.
    async fn read_definitions(&self, server: &Name) -> Result<Vec<ToolFacts>, Refused> {
        let tools = self.tools(server, false).await?;
        let definitions = tools.iter().map(|tool| tool.definition.as_str());
        ToolFacts::from_definitions(definitions).ok_or_else(|| {
            let why = "its list of tools cannot be read".into();
            Refused::Silent { server: server.clone(), why }
        })
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
        let policies = self.policies(server)?;
        let found = policies.iter().find(|policy| policy.name == *name);
        found.cloned().ok_or_else(|| {
            let names = policies.iter().map(|policy| policy.name.as_str());
            refuse_missing(&describe_policy(server, name), name.as_str(), names)
        })
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
        let _writing = self.writing.lock().await;
        let current = self.find_changeable(server, name)?;
        if !expected.admits(current.as_ref().map(|current| current.version.as_str())) {
            return Err(Refused::Stale(describe_policy(server, name)));
        }
        let policy = match attach_bytes(server, name, text, format) {
            Ok(policy) => policy,
            Err(text) => {
                return Err(Refused::Problems(load(&text, format).err().unwrap_or_default()));
            }
        };
        let problems = self.check_attached(policy.clone()).await?;
        if !problems.is_empty() {
            return Err(Refused::Problems(problems));
        }
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
        let in_force = self.live.in_force();
        let users = find_users(&server, &name, &in_force.policies);
        let with = match users.as_slice() {
            [] => String::new(),
            users => format!(", and with it the policies that extend it: {}", list_names(users)),
        };
        let put = edit_policy(actor, &policy, &format!("put into force{with}"));
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
        if !expected.admits(current.as_ref().map(|current| current.version.as_str())) {
            return Err(Refused::Stale(describe_policy(server, name)));
        }
        let current = current.ok_or_else(|| Refused::Missing(describe_policy(server, name)))?;
        let in_force = self.live.in_force();
        let users = find_users(server, name, &in_force.policies);
        if !users.is_empty() {
            let (named, users) = (describe_policy(server, name), list_names(&users));
            return Err(Refused::Conflict(format!(
                "{named} is extended by {users}\nhint: take `extends` out of them first"
            )));
        }
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

/// The name of a policy that is only checked.
pub(super) const NAME_OF_CHECKED: &str = "policy-that-is-only-checked";

/// A text as a policy of a server, or the text itself if it is not UTF-8.
fn attach_bytes(
    server: &Name,
    name: &Name,
    text: Vec<u8>,
    format: Format,
) -> Result<AttachedPolicy, Vec<u8>> {
    let text = String::from_utf8(text).map_err(std::string::FromUtf8Error::into_bytes)?;
    Ok(attach(server, name, text, format))
}

/// A text as a policy of a server.
pub(super) fn attach(server: &Name, name: &Name, text: String, format: Format) -> AttachedPolicy {
    AttachedPolicy {
        server: server.clone(),
        name: name.clone(),
        version: AttachedPolicy::version_of(&text),
        text,
        format,
        source: Source::Stored,
        base_files: Vec::new(),
    }
}

fn describe_policy(server: &Name, name: &Name) -> String {
    format!("policy `{name}` of server `{server}`")
}

fn edit_policy(actor: &Actor, policy: &AttachedPolicy, what: &str) -> Edit {
    build_edit(actor, format!("{} {what}", describe_policy(&policy.server, &policy.name)))
}
