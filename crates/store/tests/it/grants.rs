//! Grants and their tokens.

use sluice_policy::Timestamp;
use sluice_store::{Filter, Name, NewGrant, Store, TokenHash};

use crate::folder::{Folder, NOW, admin};

fn new(label: &str) -> NewGrant {
    NewGrant {
        label: Name::new(label).unwrap(),
        servers: vec![Name::new("pharo").unwrap(), Name::new("files").unwrap()],
        policy: Name::new("dev").unwrap(),
        principal: Some("alice".into()),
        expires_at: Some(Timestamp::from_millis(NOW.as_millis() + 1_000)),
    }
}

fn found(store: &Store, token: &str) -> Option<String> {
    store.grant_of(&TokenHash::of(token)).unwrap().map(|grant| grant.id)
}

#[tokio::test]
async fn a_token_finds_its_grant_and_is_not_kept() {
    let folder = Folder::new();
    let store = folder.store();
    let (grant, token) = store.create_grant(new("laptop"), NOW, admin()).await.unwrap();
    assert_eq!(store.grant_of(&token.hash()).unwrap(), Some(grant.clone()));
    assert_eq!(store.grants().unwrap(), std::slice::from_ref(&grant));
    assert_eq!(store.grant(&grant.id).unwrap(), Some(grant.clone()));
    assert_eq!(store.grant("nobody").unwrap(), None);
    assert_eq!(store.grants_by_token().unwrap(), [(token.hash(), grant)]);
    assert_eq!(found(&store, "sg_other"), None);
    let kept = folder.bytes();
    assert!(!kept.windows(token.text().len()).any(|window| window == token.text().as_bytes()));
    let records = store.records(&Filter { grant: Some("laptop".into()), ..Filter::default() });
    assert_eq!(records.unwrap().len(), 1);
}

#[tokio::test]
async fn a_rotated_token_replaces_the_old_one() {
    let folder = Folder::new();
    let store = folder.store();
    let (grant, old) = store.create_grant(new("laptop"), NOW, admin()).await.unwrap();
    let rotated = store.rotate_grant(&grant.id, admin()).await.unwrap().unwrap();
    assert_eq!((&rotated.grant, rotated.old), (&grant, old.hash()));
    assert_eq!(found(&store, old.text()), None);
    assert_eq!(found(&store, rotated.token.text()), Some(grant.id));
    assert_eq!(store.rotate_grant("nobody", admin()).await.unwrap(), None);
    // Only what was done is recorded.
    assert_eq!(store.records(&Filter::default()).unwrap().len(), 2);
}

#[tokio::test]
async fn a_revoked_or_expired_grant_is_not_valid() {
    let folder = Folder::new();
    let store = folder.store();
    let (grant, token) = store.create_grant(new("laptop"), NOW, admin()).await.unwrap();
    let end = grant.expires_at.unwrap();
    assert!(grant.is_valid(Timestamp::from_millis(end.as_millis() - 1)));
    assert!(!grant.is_valid(end));
    let (was, revoked) = store.revoke_grant(&grant.id, NOW, admin()).await.unwrap().unwrap();
    assert_eq!(was, token.hash());
    assert!(!revoked.is_valid(NOW));
    assert_eq!(store.grant_of(&token.hash()).unwrap(), Some(revoked));
    assert_eq!(store.rotate_grant(&grant.id, admin()).await.unwrap(), None);
    assert_eq!(store.revoke_grant("nobody", NOW, admin()).await.unwrap(), None);
}
