//! Records of what the gateway itself does: starts, stops, reloads with the versions before and
//! after, and reloads that were refused.

use sluice_admin::FileProblem;
use sluice_store::{
    Actor, AttachedPolicy, Clock, Kind, Outcome, PolicyRef, Record, Source, Store, StoreError,
    new_id,
};

/// Records that the gateway has started with this configuration.
pub(crate) async fn record_start(store: &Store, version: &str) -> Result<(), StoreError> {
    let program = env!("CARGO_PKG_VERSION");
    let message = format!("gateway started: sluice {program}, configuration version {version}");
    store.append(record(message)).await
}

/// Records that the gateway stops.
pub(crate) async fn record_stop(store: &Store) {
    note_last(store, record("gateway stopped".into())).await;
}

/// Records that a wrap has started, with this policy.
pub(crate) async fn record_wrap_start(store: &Store, policy: &AttachedPolicy) {
    let AttachedPolicy { server, name, version, .. } = policy;
    let program = env!("CARGO_PKG_VERSION");
    let message = format!(
        "gateway started: sluice {program}, wraps server `{server}` with policy `{name}` version {version}"
    );
    note(store, about(policy, message)).await;
}

/// Records that a wrap stops.
pub(crate) async fn record_wrap_stop(store: &Store, policy: &AttachedPolicy) {
    let message = format!("gateway stopped: it wrapped server `{}`", policy.server);
    note_last(store, about(policy, message)).await;
}

/// Records that new file contents are active, and each policy file that has changed.
pub(crate) async fn record_reload(
    store: &Store,
    (before, after): (&str, &str),
    (old, new): (&[AttachedPolicy], &[AttachedPolicy]),
) {
    if before != after {
        let message =
            format!("configuration reloaded: version {before} was replaced by version {after}");
        note(store, record(message)).await;
    }
    for record in changed_policies(old, new) {
        note(store, record).await;
    }
}

/// Records that new file contents were refused, with the first problem. The messages of problems
/// quote no settings that hold secrets.
pub(crate) async fn record_refused_reload(
    store: &Store,
    version: &str,
    first: Option<&FileProblem>,
) {
    let problem = first.map(describe_problem).unwrap_or_default();
    let message = format!(
        "configuration reload refused; the previous configuration, version {version}, stays in force; first problem: {problem}"
    );
    note(store, Record { outcome: Some(Outcome::Error), ..record(message) }).await;
}

/// A problem in one short line.
fn describe_problem(problem: &FileProblem) -> String {
    let FileProblem { file, line, column, message, .. } = problem;
    let message: String = message.lines().next().unwrap_or_default().chars().take(200).collect();
    // Only the end of a long path tells files apart.
    let long = file.chars().count().saturating_sub(200);
    let file: String = file.chars().skip(long).collect();
    if file.is_empty() { message } else { format!("{file}:{line}:{column}: {message}") }
}

/// A record for each declared policy that was added, changed or removed.
fn changed_policies(old: &[AttachedPolicy], new: &[AttachedPolicy]) -> Vec<Record> {
    let find = |policies: &[AttachedPolicy], wanted: &AttachedPolicy| {
        let is_same =
            |policy: &&AttachedPolicy| policy.server == wanted.server && policy.name == wanted.name;
        policies.iter().find(is_same).map(|policy| policy.version_in_force(policies))
    };
    let is_declared = |policy: &&AttachedPolicy| policy.source == Source::File;
    let mut records = Vec::new();
    for policy in new.iter().filter(is_declared) {
        let now = policy.version_in_force(new);
        match find(old, policy) {
            Some(before) if before == now => {}
            Some(before) => {
                let versions = format!("version {before} was replaced by {now}");
                records.push(about_change(policy, &format!("reloaded: {versions}")));
            }
            None => records.push(about_change(policy, "is now declared")),
        }
    }
    for policy in old.iter().filter(is_declared) {
        if find(new, policy).is_none() {
            records.push(about_change(policy, "is no longer declared"));
        }
    }
    records
}

fn about_change(policy: &AttachedPolicy, what: &str) -> Record {
    let (server, name) = (&policy.server, &policy.name);
    about(policy, format!("policy `{name}` of server `{server}` {what}"))
}

/// A record that names a policy and its server.
fn about(policy: &AttachedPolicy, message: String) -> Record {
    Record {
        server: Some(policy.server.as_str().into()),
        policy: Some(PolicyRef {
            name: policy.name.as_str().into(),
            version: policy.version.as_str().into(),
        }),
        ..record(message)
    }
}

fn record(message: String) -> Record {
    let now = Clock::System.now();
    Record {
        actor: Some(Actor::gateway()),
        outcome: Some(Outcome::Allow),
        message: Some(message),
        ..Record::new(new_id(now), now, Kind::Admin)
    }
}

/// Records a stop. Outcomes of calls that are still deferred are written first, so that the
/// stop is the last record.
async fn note_last(store: &Store, record: Record) {
    // If this fails, so does the record, which reports the error.
    let _ = store.flush().await;
    note(store, record).await;
}

async fn note(store: &Store, record: Record) {
    if let Err(error) = store.append(record).await {
        tracing::error!(%error, "an action of the gateway could not be recorded in the audit log");
    }
}
