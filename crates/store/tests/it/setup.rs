//! What people set up: servers, policies, approvals.

use std::time::Duration;

use rusqlite::Connection;
use sluice_policy::{Format, Timestamp};
use sluice_store::{
    Approval, AttachedPolicy, Filter, GrantRef, Name, Pending, PolicyRef, Secret, Server, Source,
    Store, StoreError, Transport,
};

use crate::folder::{Folder, NOW, admin, later};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn server(text: &str, secret: &str) -> Server {
    let headers = vec![
        ("Authorization".into(), Secret::new(secret.into())),
        ("X-Tenant".into(), Secret::new("seven".into())),
    ];
    Server {
        name: name(text),
        transport: Transport::Http { url: "https://mcp.example.com/mcp".into(), headers },
        timeout: Duration::from_millis(1_500),
        anonymous_policy: Some(name("guests")),
        bridge: sluice_store::Bridge::default(),
        source: Source::Stored,
    }
}

fn records(store: &Store) -> usize {
    store.records(&Filter::default()).unwrap().len()
}

#[tokio::test]
async fn servers_come_back_as_they_were_put() {
    let folder = Folder::new();
    let store = folder.store();
    store.put_server(server("notes", "Bearer one"), admin()).await.unwrap();
    store.put_server(server("files", "Bearer two"), admin()).await.unwrap();
    let mut changed = server("notes", "Bearer three");
    changed.anonymous_policy = None;
    store.put_server(changed.clone(), admin()).await.unwrap();
    assert_eq!(folder.store().servers().unwrap(), [server("files", "Bearer two"), changed]);
    assert!(store.remove_server(&name("notes"), admin()).await.unwrap());
    assert!(!store.remove_server(&name("notes"), admin()).await.unwrap());
    assert_eq!(store.servers().unwrap(), [server("files", "Bearer two")]);
    assert_eq!(records(&store), 4);
}

#[tokio::test]
async fn headers_are_sealed_and_bound_to_their_place() {
    let folder = Folder::new();
    let store = folder.store();
    let secret = "Bearer 0123456789abcdef";
    store.put_server(server("notes", secret), admin()).await.unwrap();
    store.put_server(server("files", "other"), admin()).await.unwrap();
    let kept = folder.bytes();
    assert!(!kept.windows(secret.len()).any(|window| window == secret.as_bytes()));
    let other = Connection::open(folder.database()).unwrap();
    let steal = "UPDATE headers SET sealed = (SELECT sealed FROM headers WHERE server = 'notes' AND place = 0)
        WHERE server = 'files' AND place = 0";
    other.execute(steal, []).unwrap();
    let refused = store.servers().unwrap_err().to_string();
    assert!(refused.contains("`Authorization` of server `files`"), "{refused}");
}

#[tokio::test]
async fn what_is_built_in_comes_from_the_file_alone() {
    let folder = Folder::new();
    let transport = Transport::Builtin { name: "demo".into(), options: "{}".into() };
    let builtin = Server { transport, ..server("demo", "") };
    let refused = folder.store().put_server(builtin, admin()).await;
    assert_eq!(refused, Err(StoreError::NotStorable("demo".into())));
}

fn policy(server: &str, text: &str) -> AttachedPolicy {
    AttachedPolicy {
        server: name(server),
        name: name("dev"),
        text: text.into(),
        format: Format::Yaml,
        version: AttachedPolicy::version_of(text),
        source: Source::Stored,
    }
}

#[tokio::test]
async fn a_policy_in_force_is_the_last_put_and_all_are_kept() {
    let folder = Folder::new();
    let store = folder.store();
    for (text, at) in [("one", NOW), ("two", later(1)), ("two", later(2)), ("one", later(3))] {
        store.put_policy(policy("notes", text), at, admin()).await.unwrap();
    }
    store.put_policy(policy("files", "other"), NOW, admin()).await.unwrap();
    assert_eq!(store.policies().unwrap(), [policy("files", "other"), policy("notes", "one")]);
    let versions = || store.policy_versions(&name("notes"), &name("dev")).unwrap();
    let seen: Vec<_> = versions().into_iter().map(|seen| (seen.policy.text, seen.at)).collect();
    let expected = [("one", later(3)), ("two", later(1)), ("one", NOW)];
    assert_eq!(seen, expected.map(|(text, at)| (text.to_owned(), at)));
    assert!(store.remove_policy(&name("notes"), &name("dev"), admin()).await.unwrap());
    assert!(!store.remove_policy(&name("notes"), &name("dev"), admin()).await.unwrap());
    assert_eq!(store.policies().unwrap(), [policy("files", "other")]);
    assert_eq!(versions().len(), 3);
}

/// A server that comes again under an old name does not find old policies in force.
#[tokio::test]
async fn a_servers_policies_go_with_it() {
    let folder = Folder::new();
    let store = folder.store();
    store.put_server(server("notes", "x"), admin()).await.unwrap();
    store.put_policy(policy("notes", "one"), NOW, admin()).await.unwrap();
    store.put_policy(policy("files", "one"), NOW, admin()).await.unwrap();
    store.remove_server(&name("notes"), admin()).await.unwrap();
    assert_eq!(store.policies().unwrap(), [policy("files", "one")]);
}

fn approval(digest: &str, at: Timestamp) -> Approval {
    Approval {
        digest: digest.into(),
        server: "notes".into(),
        grant: GrantRef { id: "g1".into(), label: "laptop".into() },
        principal: Some("alice".into()),
        tool: "pay".into(),
        rule: "tools.pay".into(),
        approvers: 2,
        message: "ask first".into(),
        policy: PolicyRef { name: "dev".into(), version: "v1".into() },
        arg_keys: vec!["amount".into(), "to\"".into()],
        requested_at: at,
        expires_at: Timestamp::from_millis(at.as_millis() + 60_000),
    }
}

async fn hold(store: &Store, approval: Approval) -> Pending {
    let record = |pending: &Pending| {
        let mut record = admin();
        record.message = Some(pending.id.clone());
        record
    };
    store.hold(approval, record).await.unwrap()
}

#[tokio::test]
async fn the_same_call_joins_the_one_that_waits() {
    let folder = Folder::new();
    let store = folder.store();
    let first = hold(&store, approval("a", NOW)).await;
    let again = hold(&store, approval("a", later(59))).await;
    assert_eq!(again, Pending { joined: true, ..first.clone() });
    let other = hold(&store, approval("b", later(59))).await;
    assert_ne!(other.id, first.id);
    // What has expired is not joined.
    let anew = hold(&store, approval("a", later(60))).await;
    assert!(!anew.joined && anew.id != first.id);
    let waiting = store.pending_approvals(later(60)).unwrap();
    let expected = [(other.id, approval("b", later(59))), (anew.id, approval("a", later(60)))];
    assert_eq!(waiting, expected);
    // Each was recorded, with the id it waits under.
    let log = store.records(&Filter::default()).unwrap();
    assert_eq!(log.len(), 4);
    assert!(log[1].1.contains(&first.id));
}
