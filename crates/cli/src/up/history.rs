//! Records of what the gateway itself does: starts, stops, and reloads with the
//! versions before and after.

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
    note(store, record("gateway stopped".into())).await;
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

/// A record for each declared policy that was added, changed or removed.
fn changed_policies(old: &[AttachedPolicy], new: &[AttachedPolicy]) -> Vec<Record> {
    let find = |policies: &[AttachedPolicy], wanted: &AttachedPolicy| {
        let is_same =
            |policy: &&AttachedPolicy| policy.server == wanted.server && policy.name == wanted.name;
        policies.iter().find(is_same).map(|policy| policy.version.clone())
    };
    let is_declared = |policy: &&AttachedPolicy| policy.source == Source::File;
    let mut records = Vec::new();
    for policy in new.iter().filter(is_declared) {
        match find(old, policy) {
            Some(before) if before == policy.version => {}
            Some(before) => {
                let versions = format!("version {before} was replaced by {}", policy.version);
                records.push(about(policy, &format!("reloaded: {versions}")));
            }
            None => records.push(about(policy, "is now declared")),
        }
    }
    for policy in old.iter().filter(is_declared) {
        if find(new, policy).is_none() {
            records.push(about(policy, "is no longer declared"));
        }
    }
    records
}

fn about(policy: &AttachedPolicy, what: &str) -> Record {
    let (server, name) = (&policy.server, &policy.name);
    Record {
        server: Some(server.as_str().into()),
        policy: Some(PolicyRef {
            name: name.as_str().into(),
            version: policy.version.as_str().into(),
        }),
        ..record(format!("policy `{name}` of server `{server}` {what}"))
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

async fn note(store: &Store, record: Record) {
    if let Err(error) = store.append(record).await {
        tracing::error!(%error, "an action of the gateway could not be recorded in the audit log");
    }
}
