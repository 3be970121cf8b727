//! Held calls: joined, decided, consumed and expired, each by compare-and-set.

use sluice_policy::Timestamp;
use sluice_store::{
    Actor, Approval, ApprovalState, Decided, GrantRef, Kind, Outcome, Pending, PolicyRef, Store,
    Verdict, Vote,
};

use crate::fixture::{Fixture, later, record, retention};

fn approval(digest: &str, approvers: u8, at: Timestamp) -> Approval {
    Approval {
        digest: digest.into(),
        server: "notes".into(),
        grant: GrantRef { id: "g1".into(), label: "laptop".into() },
        principal: Some("alice".into()),
        tool: "pay".into(),
        rule: "tools.pay".into(),
        approvers,
        message: "ask first".into(),
        policy: PolicyRef { name: "dev".into(), version: "v1".into() },
        arg_keys: vec!["amount".into(), "to\"".into()],
        requested_at: at,
        expires_at: Timestamp::from_millis(at.as_millis() + 60_000),
    }
}

async fn hold(store: &Store, approval: Approval) -> Pending {
    store.hold(approval, record(Outcome::Hold)).await.unwrap()
}

fn vote(person: &str, verdict: Verdict) -> Vote {
    Vote { actor: Actor::local(person, person), verdict, reason: Some("because".into()) }
}

async fn decide(store: &Store, id: &str, person: &str, verdict: Verdict) -> Decided {
    store.decide(id, vote(person, verdict)).await.unwrap().unwrap()
}

pub(crate) async fn the_same_call_joins_the_one_that_waits(fixture: Fixture) {
    let store = &fixture.store;
    let first = hold(store, approval("a", 1, later(0))).await;
    fixture.advance(59);
    let again = hold(store, approval("a", 1, later(59))).await;
    assert_eq!(again, Pending { joined: true, ..first.clone() });
    let other = hold(store, approval("b", 1, later(59))).await;
    assert_ne!(other.id, first.id);
    // What has expired is not joined.
    fixture.advance(1);
    let anew = hold(store, approval("a", 1, later(60))).await;
    assert!(!anew.joined && anew.id != first.id);
    let waiting = store.pending_approvals().await.unwrap();
    let waiting: Vec<_> = waiting.into_iter().map(|held| (held.id, held.approval)).collect();
    let expected =
        [(other.id, approval("b", 1, later(59))), (anew.id, approval("a", 1, later(60)))];
    assert_eq!(waiting, expected);
    // Each is recorded with the id it waits under.
    let entries = fixture.entries().await;
    assert_eq!(entries.len(), 4);
    assert_eq!(entries[1].record.approval.as_deref(), Some(first.id.as_str()));
    assert_eq!(entries[1].record.outcome, Some(Outcome::Hold));
}

pub(crate) async fn enough_different_people_must_approve(fixture: Fixture) {
    let store = &fixture.store;
    let id = hold(store, approval("a", 2, later(0))).await.id;
    assert!(!store.consume(&id, record(Outcome::Allow)).await.unwrap());
    assert_eq!(decide(store, &id, "ada", Verdict::Approve).await, Decided::Waiting);
    assert_eq!(decide(store, &id, "ada", Verdict::Approve).await, Decided::Repeated);
    assert!(!store.consume(&id, record(Outcome::Allow)).await.unwrap());
    assert_eq!(decide(store, &id, "bob", Verdict::Approve).await, Decided::Approved);
    let late = decide(store, &id, "eve", Verdict::Deny).await;
    assert_eq!(late, Decided::TooLate(ApprovalState::Approved));
    assert_eq!(store.decide("none", vote("ada", Verdict::Deny)).await.unwrap(), None);
    let held = store.approval(&id).await.unwrap().unwrap();
    let people: Vec<_> = held.votes.iter().map(|vote| &*vote.actor.id).collect();
    assert_eq!((held.state, people), (ApprovalState::Approved, vec!["ada", "bob"]));
    // Votes that counted are recorded, with whose they are.
    let entries = fixture.entries().await;
    let votes: Vec<_> = entries
        .iter()
        .map(|entry| &entry.record)
        .filter(|one| one.kind == Kind::Approval)
        .collect();
    assert_eq!(votes.len(), 2);
    assert_eq!(votes[1].actor, Some(Actor::local("bob", "bob")));
    assert_eq!(votes[1].approval.as_deref(), Some(id.as_str()));
    assert_eq!(votes[1].outcome, Some(Outcome::Allow));
}

pub(crate) async fn one_denial_is_enough(fixture: Fixture) {
    let store = &fixture.store;
    let id = hold(store, approval("a", 2, later(0))).await.id;
    assert_eq!(decide(store, &id, "ada", Verdict::Approve).await, Decided::Waiting);
    assert_eq!(decide(store, &id, "bob", Verdict::Deny).await, Decided::Denied);
    let late = decide(store, &id, "eve", Verdict::Approve).await;
    assert_eq!(late, Decided::TooLate(ApprovalState::Denied));
    assert!(!store.consume(&id, record(Outcome::Allow)).await.unwrap());
    assert!(store.pending_approvals().await.unwrap().is_empty());
    // The same call asks anew.
    assert!(!hold(store, approval("a", 2, later(0))).await.joined);
}

pub(crate) async fn an_approval_is_consumed_once(fixture: Fixture) {
    let store = &fixture.store;
    let id = hold(store, approval("a", 1, later(0))).await.id;
    assert_eq!(decide(store, &id, "ada", Verdict::Approve).await, Decided::Approved);
    let mut stores = vec![store.clone()];
    stores.extend(fixture.other_process());
    let tasks = (0..20).map(|number| {
        let (store, id) = (stores[number % stores.len()].clone(), id.clone());
        tokio::spawn(async move { store.consume(&id, record(Outcome::Allow)).await.unwrap() })
    });
    let mut consumed = 0;
    for task in tasks.collect::<Vec<_>>() {
        consumed += usize::from(task.await.unwrap());
    }
    assert_eq!(consumed, 1);
    let entries = fixture.entries().await;
    let uses = |one: &&sluice_store::Entry| one.record.outcome == Some(Outcome::Allow);
    let uses: Vec<_> =
        entries.iter().filter(uses).filter(|one| one.record.kind == Kind::Decision).collect();
    assert_eq!(uses.len(), 1);
    assert_eq!(uses[0].record.approval.as_deref(), Some(id.as_str()));
}

pub(crate) async fn an_expired_call_cannot_be_decided_or_consumed(fixture: Fixture) {
    let store = &fixture.store;
    let waiting = hold(store, approval("a", 1, later(0))).await.id;
    let approved = hold(store, approval("b", 1, later(0))).await.id;
    assert_eq!(decide(store, &approved, "ada", Verdict::Approve).await, Decided::Approved);
    fixture.advance(60);
    let late = decide(store, &waiting, "ada", Verdict::Approve).await;
    assert_eq!(late, Decided::TooLate(ApprovalState::Expired));
    assert!(!store.consume(&approved, record(Outcome::Allow)).await.unwrap());
}

pub(crate) async fn expiry_is_recorded_once(fixture: Fixture) {
    let store = &fixture.store;
    let id = hold(store, approval("a", 1, later(0))).await.id;
    assert_eq!(store.expire().await.unwrap(), 0);
    fixture.advance(60);
    assert_eq!(store.expire().await.unwrap(), 1);
    assert_eq!(store.expire().await.unwrap(), 0);
    let held = store.approval(&id).await.unwrap().unwrap();
    assert_eq!(held.state, ApprovalState::Expired);
    let entries = fixture.entries().await;
    let last = &entries[1].record;
    assert_eq!((entries.len(), last.kind), (2, Kind::Approval));
    assert_eq!(last.approval.as_deref(), Some(id.as_str()));
    assert_eq!(last.message.as_deref(), Some("held call expired"));
}

/// Pruning removes held calls that are long over, never without a record of their end.
pub(crate) async fn a_pruned_held_call_was_recorded_as_expired(fixture: Fixture) {
    let store = &fixture.store;
    let id = hold(store, approval("a", 1, later(0))).await.id;
    fixture.advance(3_600);
    store.prune(retention(std::time::Duration::from_mins(1), u64::MAX)).await.unwrap();
    assert_eq!(store.approval(&id).await.unwrap(), None);
    let expired = fixture.entries().await.into_iter().map(|entry| entry.record);
    let expired: Vec<_> = expired.filter(|record| record.kind == Kind::Approval).collect();
    assert_eq!(expired.len(), 1);
    assert_eq!(expired[0].approval.as_deref(), Some(id.as_str()));
}

pub(crate) async fn held_calls_are_bounded_for_each_grant(fixture: Fixture) {
    let store = &fixture.store;
    let of = |grant: &str, number: i64| {
        let digest = format!("{grant} {number}");
        let grant = GrantRef { id: grant.into(), label: grant.into() };
        Approval { digest, grant, ..approval("d", 1, later(0)) }
    };
    let hold = |approval: Approval| store.hold(approval, record(Outcome::Hold));
    for number in 0..100 {
        hold(of("bob", number)).await.unwrap();
    }
    let refused = hold(of("bob", 100)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "this grant has 100 calls that wait for approval, and may not have more"
    );
    assert!(store.health().ok);
    // The same call joins, and another grant's calls are held.
    assert!(hold(of("bob", 7)).await.unwrap().joined);
    hold(of("eve", 0)).await.unwrap();
    // What is over takes no place, and not all of it is kept.
    let pending = store.pending_approvals().await.unwrap();
    let first = pending.iter().find(|held| held.approval.digest == "bob 0").unwrap().id.clone();
    for round in 0..11 {
        fixture.advance(3_600);
        store.expire().await.unwrap();
        for number in 0..100 {
            let requested_at = later((round + 1) * 3_600);
            let expires_at = later((round + 1) * 3_600 + 900);
            hold(Approval { requested_at, expires_at, ..of("bob", number) }).await.unwrap();
        }
    }
    assert_eq!(store.pending_approvals().await.unwrap().len(), 100);
    assert_eq!(store.approval(&first).await.unwrap(), None);
}
