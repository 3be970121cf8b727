//! People: their accounts, sessions and API tokens.

use sluice_store::{
    Access, AccountChange, Identity, Invitation, Kind, Name, NewApiToken, NewPerson, NewSession,
    Person, PersonEdit, Role, Secret, Store, StoreError, Token, TokenHash,
};

use crate::fixture::{Fixture, edit, later};

fn person(login: &str, role: Role) -> NewPerson {
    NewPerson {
        login: login.into(),
        name: login.to_uppercase(),
        access: Access::to_all(role),
        reason: "set by a test".into(),
        identity: None,
        password: None,
        invitation: None,
    }
}

fn password() -> AccountChange {
    AccountChange::SetPassword(Secret::new("$argon2id$…".into()))
}

fn disabled(is_disabled: bool) -> AccountChange {
    AccountChange::Edit(PersonEdit { is_disabled: Some(is_disabled), ..PersonEdit::default() })
}

fn session(person: Option<&str>, text: &str) -> NewSession {
    NewSession {
        token: TokenHash::of(text),
        person: person.map(Into::into),
        address: "127.0.0.1".into(),
        expires_at: later(100),
    }
}

async fn begin(store: &Store, person: Option<&str>, text: &str) {
    store.begin_session(session(person, text), edit("signed in")).await.unwrap();
}

async fn has_session(store: &Store, text: &str) -> bool {
    store.session(&TokenHash::of(text)).await.unwrap().is_some()
}

/// Admins with a password.
async fn admin(store: &Store, login: &str) -> Person {
    let password = Some(Secret::new("$argon2id$…".into()));
    let new = NewPerson { password, ..person(login, Role::Admin) };
    store.create_person(new, edit("a")).await.unwrap()
}

pub(crate) async fn people_come_back_as_they_were_put(fixture: Fixture) {
    let store = &fixture.store;
    let servers = Some(vec![Name::new("files").unwrap(), Name::new("pharo").unwrap()]);
    let identity = Identity { issuer: "https://id.example.com".into(), subject: "42".into() };
    let new = NewPerson {
        access: Access { role: Role::PolicyManager, servers },
        identity: Some(identity.clone()),
        ..person("bob", Role::Viewer)
    };
    let bob = store.create_person(new, edit("bob comes")).await.unwrap();
    let eve = store.create_person(person("eve", Role::Auditor), edit("eve comes")).await.unwrap();
    assert_eq!(store.people().await.unwrap().len(), 2);
    assert_eq!(store.person(&bob.id).await.unwrap(), Some(bob.clone()));
    assert_eq!(store.person("nobody").await.unwrap(), None);
    assert_eq!(store.person_of_identity(&identity).await.unwrap(), Some(bob.clone()));
    let account = store.account_of_login("eve").await.unwrap().unwrap();
    assert_eq!((account.person, account.password), (eve.clone(), None));
    assert_eq!((&*bob.created_by, bob.has_password), ("ada", false));
    // Logins and identities are unique.
    for new in [
        person("eve", Role::Viewer),
        NewPerson { identity: Some(identity), ..person("bobby", Role::Viewer) },
    ] {
        let login = new.login.clone();
        let taken = store.create_person(new, edit("x")).await.unwrap_err();
        assert_eq!(taken, StoreError::LoginTaken(login));
    }
    let access = Some(Access::to_all(Role::Approver));
    let change = AccountChange::Edit(PersonEdit { access, ..PersonEdit::default() });
    let changed = store.change_account(&eve.id, change, edit("eve approves")).await.unwrap();
    assert_eq!(changed, Some(Person { access: Access::to_all(Role::Approver), ..eve }));
    let removed = store.remove_person(&bob.id, edit("bob goes")).await.unwrap();
    assert_eq!(removed, Some(bob.clone()));
    assert_eq!(store.remove_person(&bob.id, edit("x")).await.unwrap(), None);
    let messages: Vec<_> =
        fixture.entries().await.into_iter().map(|entry| entry.record.message.unwrap()).collect();
    assert_eq!(messages, ["bob comes", "eve comes", "eve approves", "bob goes"]);
}

pub(crate) async fn an_invitation_is_accepted_once_and_in_time(fixture: Fixture) {
    let store = &fixture.store;
    let token = Token::random().unwrap().hash();
    let invitation = Invitation { token, until: later(60) };
    let new = NewPerson { invitation: Some(invitation.clone()), ..person("bob", Role::Viewer) };
    let bob = store.create_person(new, edit("a")).await.unwrap();
    assert_eq!(bob.invited_until, Some(later(60)));
    assert_eq!(store.person_of_invitation(&token).await.unwrap(), Some(bob.clone()));
    let accept = async |token: TokenHash| {
        let password = Secret::new("hash".into());
        store.accept_invitation(&token, password, edit("accepted")).await.unwrap()
    };
    assert_eq!(accept(TokenHash::of("another")).await, None);
    let accepted = accept(token).await.unwrap();
    assert!(accepted.has_password && accepted.invited_until.is_none());
    assert_eq!(accept(token).await, None, "only once");
    let account = store.account_of_login("bob").await.unwrap().unwrap();
    assert_eq!(account.password.unwrap().expose(), "hash");
    // One that is over, and one of a person that is disabled.
    let invite = AccountChange::Invite(invitation);
    store.change_account(&bob.id, invite.clone(), edit("b")).await.unwrap().unwrap();
    fixture.advance(60);
    assert_eq!(store.person_of_invitation(&token).await.unwrap(), None);
    assert_eq!(accept(token).await, None);
    let again = AccountChange::Invite(Invitation { token, until: later(1_000) });
    store.change_account(&bob.id, again, edit("c")).await.unwrap().unwrap();
    store.change_account(&bob.id, disabled(true), edit("d")).await.unwrap().unwrap();
    assert_eq!(accept(token).await, None);
}

pub(crate) async fn the_last_admin_stays(fixture: Fixture) {
    let store = &fixture.store;
    let (one, other) = (admin(store, "one").await, admin(store, "two").await);
    // An admin who cannot sign in yet does not count.
    store.create_person(person("three", Role::Admin), edit("a")).await.unwrap();
    store.change_account(&one.id, disabled(true), edit("b")).await.unwrap().unwrap();
    let viewer = AccountChange::Edit(PersonEdit {
        access: Some(Access::to_all(Role::Viewer)),
        ..PersonEdit::default()
    });
    let servers = Some(vec![Name::new("files").unwrap()]);
    let limited = AccountChange::Edit(PersonEdit {
        access: Some(Access { role: Role::Admin, servers }),
        ..PersonEdit::default()
    });
    let before = fixture.entries().await.len();
    for change in [viewer.clone(), limited, disabled(true)] {
        let refused = store.change_account(&other.id, change, edit("x")).await.unwrap_err();
        assert_eq!(refused, StoreError::LastAdmin);
    }
    let refused = store.remove_person(&other.id, edit("x")).await.unwrap_err();
    assert_eq!(refused, StoreError::LastAdmin);
    assert_eq!(store.person(&other.id).await.unwrap(), Some(other.clone()));
    assert_eq!(fixture.entries().await.len(), before, "what was refused is no change");
    store.change_account(&one.id, disabled(false), edit("c")).await.unwrap().unwrap();
    let changed = store.change_account(&other.id, viewer, edit("d")).await.unwrap().unwrap();
    assert_eq!(changed.access.role, Role::Viewer);
}

pub(crate) async fn two_admins_cannot_remove_each_other_at_once(fixture: Fixture) {
    let store = &fixture.store;
    let (one, other) = (admin(store, "one").await, admin(store, "two").await);
    let remove = |id: String| {
        let store = store.clone();
        tokio::spawn(async move { store.remove_person(&id, edit("goes")).await })
    };
    let (first, second) = (remove(one.id), remove(other.id));
    let results = [first.await.unwrap(), second.await.unwrap()];
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_eq!(store.people().await.unwrap().len(), 1);
}

pub(crate) async fn sessions_end_with_their_password_and_their_person(fixture: Fixture) {
    let store = &fixture.store;
    let bob = store.create_person(person("bob", Role::Viewer), edit("a")).await.unwrap();
    begin(store, Some(&bob.id), "one").await;
    begin(store, Some(&bob.id), "two").await;
    begin(store, None, "owner").await;
    let (found, of) = store.session(&TokenHash::of("one")).await.unwrap().unwrap();
    assert_eq!((found.address.as_str(), found.expires_at), ("127.0.0.1", later(100)));
    assert_eq!(of.unwrap().last_sign_in, Some(later(0)));
    store.note_session_use(&TokenHash::of("one"), later(3)).await.unwrap();
    store.note_session_use(&TokenHash::of("one"), later(2)).await.unwrap();
    let (found, _) = store.session(&TokenHash::of("one")).await.unwrap().unwrap();
    assert_eq!(found.used_at, later(3));
    assert_eq!(store.sessions_of(Some(&bob.id)).await.unwrap().len(), 2);
    assert!(store.end_session(&TokenHash::of("two"), edit("out")).await.unwrap());
    assert!(!store.end_session(&TokenHash::of("two"), edit("out")).await.unwrap());
    assert!(has_session(store, "one").await && !has_session(store, "two").await);
    store.change_account(&bob.id, password(), edit("b")).await.unwrap();
    assert!(!has_session(store, "one").await);
    begin(store, Some(&bob.id), "three").await;
    store.change_account(&bob.id, disabled(true), edit("c")).await.unwrap();
    assert!(!has_session(store, "three").await);
    begin(store, Some(&bob.id), "four").await;
    begin(store, Some(&bob.id), "five").await;
    assert_eq!(store.end_sessions_of(Some(&bob.id), edit("everywhere")).await.unwrap(), 2);
    begin(store, Some(&bob.id), "six").await;
    store.remove_person(&bob.id, edit("d")).await.unwrap();
    assert!(!has_session(store, "six").await);
    assert!(has_session(store, "owner").await, "the owner has no account");
    let entries = fixture.entries().await;
    let kinds = |kind| entries.iter().filter(|entry| entry.record.kind == kind).count();
    // Eight sign-ins, a sign-out and one everywhere.
    assert_eq!((kinds(Kind::Auth), kinds(Kind::Admin)), (9, 4));
}

pub(crate) async fn sessions_are_bounded_for_each_person(fixture: Fixture) {
    let store = &fixture.store;
    let bob = store.create_person(person("bob", Role::Viewer), edit("a")).await.unwrap();
    begin(store, None, "owner").await;
    for number in 0..25 {
        fixture.advance(1);
        begin(store, Some(&bob.id), &format!("number {number}")).await;
    }
    assert_eq!(store.sessions_of(Some(&bob.id)).await.unwrap().len(), 20);
    assert!(!has_session(store, "number 4").await && has_session(store, "number 5").await);
    assert!(has_session(store, "owner").await);
    // Sessions that are over are removed with the next sign-in of anybody.
    fixture.advance(100);
    store
        .begin_session(
            NewSession { expires_at: later(1_000), ..session(None, "late") },
            edit("signed in"),
        )
        .await
        .unwrap();
    assert_eq!(store.sessions_of(Some(&bob.id)).await.unwrap(), []);
    assert_eq!(store.sessions_of(None).await.unwrap().len(), 1);
}

pub(crate) async fn an_api_token_finds_its_person(fixture: Fixture) {
    let store = &fixture.store;
    let bob = store.create_person(person("bob", Role::Viewer), edit("a")).await.unwrap();
    let new = |person: &str| NewApiToken {
        person: person.into(),
        label: "ci".into(),
        access: Access::to_all(Role::Viewer),
        expires_at: Some(later(10)),
    };
    assert!(store.create_api_token(new("nobody"), edit("x")).await.unwrap().is_none());
    let (token, text) = store.create_api_token(new(&bob.id), edit("b")).await.unwrap().unwrap();
    assert!(text.text().starts_with("sgp_"));
    let found = store.api_token_of(&text.hash()).await.unwrap();
    assert_eq!(found, Some((token.clone(), bob.clone())));
    assert_eq!(store.api_token_of(&TokenHash::of("sgp_other")).await.unwrap(), None);
    assert!(token.is_valid(later(9)) && !token.is_valid(later(10)));
    store.note_api_token_use(&token.id, later(5)).await.unwrap();
    store.note_api_token_use(&token.id, later(4)).await.unwrap();
    assert_eq!(store.api_tokens().await.unwrap()[0].last_used, Some(later(5)));
    let revoked = store.revoke_api_token(&token.id, edit("c")).await.unwrap().unwrap();
    assert!(!revoked.is_valid(later(0)));
    assert_eq!(store.revoke_api_token("nobody", edit("x")).await.unwrap(), None);
    store.remove_person(&bob.id, edit("d")).await.unwrap();
    assert_eq!(store.api_token_of(&text.hash()).await.unwrap(), None);
    assert_eq!(fixture.entries().await.len(), 4);
}
