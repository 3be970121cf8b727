//! Servers, policies, grants, and who is told of their changes.

use std::time::Duration;

use sluice_policy::{Format, Timestamp};
use sluice_store::{
    Actor, Approval, AttachedPolicy, Bridge, Change, DeclaredServer, Grant, GrantEdit, GrantRef,
    GrantTokens, HiddenText, Kind, Name, NewGrant, Patch, PolicyRef, Record, Secret, Server,
    Source, Store, StoreError, TokenHash, Transport, new_id,
};

use crate::fixture::{Fixture, edit, later};

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
        transport: Transport::Http {
            url: Secret::new("https://mcp.example.com/mcp".into()),
            headers,
        },
        timeout: Duration::from_millis(1_500),
        anonymous_policy: Some(name("guests")),
        bridge: Bridge::default(),
        hidden_text: HiddenText::default(),
        mask_secrets: true,
        source: Source::Stored,
    }
}

fn policy(server: &str, text: &str) -> AttachedPolicy {
    AttachedPolicy {
        server: name(server),
        name: name("dev"),
        text: text.into(),
        format: Format::Yaml,
        version: AttachedPolicy::version_of(text),
        source: Source::Stored,
        base_files: Vec::new(),
    }
}

fn grant(label: &str) -> NewGrant {
    NewGrant {
        label: name(label),
        servers: vec![name("pharo"), name("files")],
        policy: name("dev"),
        principal: Some("alice".into()),
        expires_at: Some(later(1)),
    }
}

pub(crate) async fn servers_come_back_as_they_were_put(fixture: Fixture) {
    let store = &fixture.store;
    store.put_server(server("notes", "Bearer one"), edit("a")).await.unwrap();
    store.put_server(server("files", "Bearer two"), edit("b")).await.unwrap();
    let changed = Server { anonymous_policy: None, ..server("notes", "Bearer three") };
    store.put_server(changed.clone(), edit("c")).await.unwrap();
    assert_eq!(store.servers().await.unwrap(), [server("files", "Bearer two"), changed]);
    assert!(store.remove_server(&name("notes"), edit("d")).await.unwrap());
    assert!(!store.remove_server(&name("notes"), edit("e")).await.unwrap());
    assert_eq!(store.servers().await.unwrap(), [server("files", "Bearer two")]);
    assert_eq!(fixture.entries().await.len(), 4);
}

pub(crate) async fn only_http_servers_can_be_stored(fixture: Fixture) {
    let transport = Transport::Builtin { name: "demo".into(), options: "{}".into() };
    let builtin = Server { transport, ..server("demo", "") };
    let refused = fixture.store.put_server(builtin, edit("a")).await;
    assert_eq!(refused, Err(StoreError::NotStorable("demo".into())));
}

pub(crate) async fn the_last_policy_put_is_in_force_and_all_versions_are_kept(fixture: Fixture) {
    let store = &fixture.store;
    for text in ["one", "two", "two", "one"] {
        store.put_policy(policy("notes", text), edit("a")).await.unwrap();
        fixture.advance(1);
    }
    store.put_policy(policy("files", "other"), edit("a")).await.unwrap();
    let in_force = store.policies().await.unwrap();
    assert_eq!(in_force, [policy("files", "other"), policy("notes", "one")]);
    let versions =
        || async { store.policy_versions(&name("notes"), &name("dev")).await.unwrap().into_iter() };
    let seen: Vec<_> = versions().await.map(|seen| (seen.policy.text, seen.at)).collect();
    let expected = [("one", later(3)), ("two", later(1)), ("one", later(0))];
    assert_eq!(seen, expected.map(|(text, at)| (text.to_owned(), at)));
    assert!(store.remove_policy(&name("notes"), &name("dev"), edit("a")).await.unwrap());
    assert!(!store.remove_policy(&name("notes"), &name("dev"), edit("a")).await.unwrap());
    assert_eq!(store.policies().await.unwrap(), [policy("files", "other")]);
    assert_eq!(versions().await.count(), 3);
}

/// A server that comes again under an old name does not find old policies in force.
pub(crate) async fn a_servers_policies_go_with_it(fixture: Fixture) {
    let store = &fixture.store;
    store.put_server(server("notes", "x"), edit("a")).await.unwrap();
    store.put_policy(policy("notes", "one"), edit("a")).await.unwrap();
    store.put_policy(policy("files", "one"), edit("a")).await.unwrap();
    store.remove_server(&name("notes"), edit("a")).await.unwrap();
    assert_eq!(store.policies().await.unwrap(), [policy("files", "one")]);
}

/// Nor does a grant reach it, nor does what people approved for the old one.
pub(crate) async fn grants_and_held_calls_do_not_outlive_their_server(fixture: Fixture) {
    let store = &fixture.store;
    store.put_server(server("files", "x"), edit("a")).await.unwrap();
    let (granted, _) = store.create_grant(grant("laptop"), edit("a")).await.unwrap();
    let (revoked, _) = store.create_grant(grant("old"), edit("a")).await.unwrap();
    store.revoke_grant(&revoked.id, edit("a")).await.unwrap();
    let at = later(0);
    let held = Approval {
        digest: "d".into(),
        server: "files".into(),
        grant: GrantRef { id: granted.id.as_str().into(), label: "laptop".into() },
        principal: None,
        tool: "pay".into(),
        rule: "/tools/pay/approval".into(),
        approvers: 1,
        message: "Ask first.".into(),
        policy: PolicyRef { name: "dev".into(), version: "v".into() },
        arg_keys: Vec::new(),
        requested_at: at,
        expires_at: later(60_000),
    };
    let record = Record::new(new_id(at), at, Kind::Decision);
    let first = store.hold(held.clone(), record.clone()).await.unwrap();
    assert!(store.remove_server(&name("files"), edit("b")).await.unwrap());
    let servers = |grants: Vec<Grant>, id: &str| {
        grants.into_iter().find(|grant| grant.id == id).map(|grant| grant.servers)
    };
    let grants = store.grants().await.unwrap();
    assert_eq!(servers(grants.clone(), &granted.id), Some(vec![name("pharo")]));
    // What a revoked grant was for stays known.
    assert_eq!(servers(grants, &revoked.id), Some(vec![name("pharo"), name("files")]));
    assert!(store.pending_approvals().await.unwrap().is_empty());
    store.put_server(server("files", "y"), edit("c")).await.unwrap();
    let again = store.hold(held, Record { id: new_id(at), ..record }).await.unwrap();
    assert_ne!(again.id, first.id, "it does not join what waited for the old server");
    // A server that only a file declared leaves something, too.
    store.put_policy(policy("pharo", "one"), edit("d")).await.unwrap();
    assert!(!store.remove_server(&name("pharo"), edit("e")).await.unwrap());
    assert!(store.policies().await.unwrap().is_empty());
    assert_eq!(store.grant(&granted.id).await.unwrap().unwrap().servers, []);
}

/// What files declare is known across restarts, until the server is removed.
pub(crate) async fn declared_servers_are_known_until_they_are_removed(fixture: Fixture) {
    let store = &fixture.store;
    assert!(store.declared_servers().await.unwrap().is_empty());
    let declared = |text: &str, identity: &str, is_declared| DeclaredServer {
        name: name(text),
        identity: identity.into(),
        is_declared,
    };
    let both = vec![declared("files", "1", true), declared("notes", "2", true)];
    let epoch = store.epoch().await.unwrap();
    store.note_declared(both.clone()).await.unwrap();
    assert_eq!(store.declared_servers().await.unwrap(), both);
    store.note_declared(vec![declared("notes", "2", false)]).await.unwrap();
    let after = [declared("files", "1", true), declared("notes", "2", false)];
    assert_eq!(store.declared_servers().await.unwrap(), after);
    assert_eq!(store.epoch().await.unwrap(), epoch);
    assert!(store.remove_server(&name("notes"), edit("a")).await.unwrap());
    assert!(!store.remove_server(&name("notes"), edit("a")).await.unwrap());
    assert_eq!(store.declared_servers().await.unwrap(), [declared("files", "1", true)]);
}

async fn found(store: &Store, token: &str) -> Option<String> {
    store.grant_of(&TokenHash::of(token)).await.unwrap().map(|grant| grant.id)
}

pub(crate) async fn a_token_finds_its_grant(fixture: Fixture) {
    let store = &fixture.store;
    let (grant, token) = store.create_grant(grant("laptop"), edit("a")).await.unwrap();
    assert_eq!(store.grant_of(&token.hash()).await.unwrap(), Some(grant.clone()));
    assert_eq!(store.grants().await.unwrap(), std::slice::from_ref(&grant));
    assert_eq!(store.grant(&grant.id).await.unwrap(), Some(grant.clone()));
    assert_eq!(store.grant("nobody").await.unwrap(), None);
    assert_eq!(found(store, "sg_other").await, None);
    let snapshot = store.snapshot().await.unwrap();
    assert_eq!((snapshot.grants, snapshot.epoch), (vec![(token.hash(), grant)], 1));
}

pub(crate) async fn a_rotated_token_replaces_the_old_one(fixture: Fixture) {
    let store = &fixture.store;
    let (grant, old) = store.create_grant(grant("laptop"), edit("a")).await.unwrap();
    let rotated = store.rotate_grant(&grant.id, Duration::ZERO, edit("b")).await.unwrap().unwrap();
    assert_eq!(rotated.before, GrantTokens { current: old.hash(), previous: None });
    assert_eq!(rotated.changed.grant, grant);
    assert_eq!(found(store, old.text()).await, None);
    assert_eq!(found(store, rotated.token.text()).await, Some(grant.id));
    assert_eq!(store.rotate_grant("nobody", Duration::ZERO, edit("c")).await.unwrap(), None);
    // Only what was done is recorded.
    assert_eq!(fixture.entries().await.len(), 2);
}

pub(crate) async fn an_old_token_works_until_the_overlap_ends(fixture: Fixture) {
    let store = &fixture.store;
    let (grant, first) = store.create_grant(grant("laptop"), edit("a")).await.unwrap();
    let overlap = Duration::from_millis(500);
    let second = store.rotate_grant(&grant.id, overlap, edit("b")).await.unwrap().unwrap();
    let old = store.grant_of(&first.hash()).await.unwrap().unwrap();
    let end = old.expires_at.unwrap();
    assert!(end < grant.expires_at.unwrap());
    assert_eq!(second.changed.tokens.previous, Some((first.hash(), end)));
    assert_eq!(old, Grant { expires_at: Some(end), ..grant.clone() });
    assert_eq!(store.grant_of(&second.token.hash()).await.unwrap(), Some(grant.clone()));
    let in_force = vec![(second.token.hash(), grant.clone()), (first.hash(), old)];
    assert_eq!(store.snapshot().await.unwrap().grants, in_force);
    // A grant has at most two tokens.
    let third = store.rotate_grant(&grant.id, overlap, edit("c")).await.unwrap().unwrap();
    assert_eq!(found(store, first.text()).await, None);
    assert!(found(store, second.token.text()).await.is_some());
    // Revoking ends both.
    store.revoke_grant(&grant.id, edit("d")).await.unwrap();
    for token in [second.token, third.token] {
        let revoked = store.grant_of(&token.hash()).await.unwrap().unwrap();
        assert!(revoked.revoked_at.is_some());
    }
}

pub(crate) async fn an_edited_grant_keeps_what_was_not_changed(fixture: Fixture) {
    let store = &fixture.store;
    let (before, token) = store.create_grant(grant("laptop"), edit("a")).await.unwrap();
    let changes = GrantEdit {
        label: Some(name("desk")),
        policy: Some(name("careful")),
        expires_at: Patch::Remove,
        ..GrantEdit::default()
    };
    let edited = store.edit_grant(&before.id, changes, edit("b")).await.unwrap().unwrap();
    let expected =
        Grant { label: name("desk"), policy: name("careful"), expires_at: None, ..before.clone() };
    assert_eq!(edited.grant, expected);
    assert_eq!(store.grant_of(&token.hash()).await.unwrap(), Some(expected.clone()));
    let changes = GrantEdit {
        servers: Some(vec![name("files")]),
        principal: Patch::Remove,
        ..GrantEdit::default()
    };
    let edited = store.edit_grant(&before.id, changes, edit("c")).await.unwrap().unwrap();
    assert_eq!(edited.grant, Grant { servers: vec![name("files")], principal: None, ..expected });
    assert_eq!(store.edit_grant("nobody", GrantEdit::default(), edit("d")).await.unwrap(), None);
    assert_eq!(fixture.entries().await.len(), 3);
}

pub(crate) async fn labels_of_grants_are_unique_until_they_are_revoked(fixture: Fixture) {
    let store = &fixture.store;
    let taken = Err(StoreError::LabelTaken("laptop".into()));
    let (laptop, _) = store.create_grant(grant("laptop"), edit("a")).await.unwrap();
    assert_eq!(store.create_grant(grant("laptop"), edit("b")).await.map(|_| ()), taken);
    let (desk, _) = store.create_grant(grant("desk"), edit("c")).await.unwrap();
    let relabel = || GrantEdit { label: Some(name("laptop")), ..GrantEdit::default() };
    assert_eq!(store.edit_grant(&desk.id, relabel(), edit("d")).await.map(|_| ()), taken);
    store.edit_grant(&laptop.id, relabel(), edit("e")).await.unwrap().unwrap();
    store.revoke_grant(&laptop.id, edit("f")).await.unwrap();
    store.edit_grant(&desk.id, relabel(), edit("g")).await.unwrap().unwrap();
    // Only what was done is recorded.
    assert_eq!(fixture.entries().await.len(), 5);
}

pub(crate) async fn the_last_use_of_a_grant_is_the_latest_noted(fixture: Fixture) {
    let store = &fixture.store;
    let epoch = store.epoch().await.unwrap();
    let at = Timestamp::from_millis;
    store.note_uses(vec![("a".into(), at(5)), ("b".into(), at(7))]).await.unwrap();
    store.note_uses(vec![("a".into(), at(9)), ("b".into(), at(6))]).await.unwrap();
    let uses = store.last_uses().await.unwrap();
    assert_eq!((uses.len(), uses["a"], uses["b"]), (2, at(9), at(7)));
    assert_eq!(store.epoch().await.unwrap(), epoch);
    assert!(fixture.entries().await.is_empty());
}

pub(crate) async fn a_revoked_or_expired_grant_is_not_valid(fixture: Fixture) {
    let store = &fixture.store;
    let (grant, token) = store.create_grant(grant("laptop"), edit("a")).await.unwrap();
    let end = grant.expires_at.unwrap();
    assert!(grant.is_valid(Timestamp::from_millis(end.as_millis() - 1)));
    assert!(!grant.is_valid(end));
    let revoked = store.revoke_grant(&grant.id, edit("b")).await.unwrap().unwrap();
    assert_eq!(revoked.tokens, GrantTokens { current: token.hash(), previous: None });
    assert!(!revoked.grant.is_valid(later(0)));
    assert_eq!(store.grant_of(&token.hash()).await.unwrap(), Some(revoked.grant));
    assert_eq!(store.rotate_grant(&grant.id, Duration::ZERO, edit("c")).await.unwrap(), None);
    let changes = GrantEdit { label: Some(name("desk")), ..GrantEdit::default() };
    assert_eq!(store.edit_grant(&grant.id, changes, edit("c")).await.unwrap(), None);
    assert_eq!(store.revoke_grant("nobody", edit("d")).await.unwrap(), None);
}

pub(crate) async fn each_change_is_recorded_with_its_actor(fixture: Fixture) {
    let store = &fixture.store;
    store.put_server(server("notes", "x"), edit("server added")).await.unwrap();
    store.put_policy(policy("notes", "one"), edit("policy put")).await.unwrap();
    let (grant, _) = store.create_grant(grant("laptop"), edit("grant created")).await.unwrap();
    let entries = fixture.entries().await;
    for (entry, message) in entries.iter().zip(["server added", "policy put", "grant created"]) {
        assert_eq!(entry.record.kind, Kind::Admin);
        assert_eq!(entry.record.actor, Some(Actor::local("t1", "ada")));
        assert_eq!(entry.record.message.as_deref(), Some(message));
    }
    assert_eq!(entries[0].record.server.as_deref(), Some("notes"));
    let put = entries[1].record.policy.as_ref().unwrap();
    assert_eq!((&*put.name, &*put.version), ("dev", AttachedPolicy::version_of("one").as_str()));
    assert_eq!(&*entries[2].record.grant.as_ref().unwrap().id, grant.id);
}

pub(crate) async fn changes_are_announced_with_their_epoch(fixture: Fixture) {
    let store = &fixture.store;
    let mut changes = store.changes(store.epoch().await.unwrap());
    store.put_server(server("notes", "x"), edit("a")).await.unwrap();
    let change = changes.next().await.unwrap();
    assert_eq!(change, Change { epoch: 1, is_foreign: false });
    // What changes nothing is not announced, and what follows closely may be one.
    store.remove_server(&name("none"), edit("b")).await.unwrap();
    store.put_policy(policy("notes", "one"), edit("c")).await.unwrap();
    store.create_grant(grant("laptop"), edit("d")).await.unwrap();
    let change = changes.next().await.unwrap();
    assert_eq!(change, Change { epoch: 3, is_foreign: false });
    assert_eq!(store.snapshot().await.unwrap().epoch, 3);
}

pub(crate) async fn changes_of_other_processes_are_announced_as_foreign(fixture: Fixture) {
    let Some(other) = fixture.other_process() else { return };
    let mut changes = fixture.store.changes(0);
    other.put_server(server("notes", "x"), edit("a")).await.unwrap();
    let seen = tokio::time::timeout(Duration::from_secs(30), changes.next()).await.unwrap();
    assert_eq!(seen.unwrap(), Change { epoch: 1, is_foreign: true });
    assert_eq!(fixture.store.servers().await.unwrap(), [server("notes", "x")]);
}
