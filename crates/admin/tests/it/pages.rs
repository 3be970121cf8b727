//! The pages, as a browser without scripts gets them.

use axum::http::{Method, StatusCode};
use serde_json::json;

use crate::fixture::{HOST, Reply, TestApi, request};

const PASSWORD: &str = "four+words+in+a+row";

fn cookie_of(reply: &Reply) -> String {
    reply.header("set-cookie").split(';').next().unwrap().to_owned()
}

/// The value of the hidden field against forgery.
fn csrf_of(page: &Reply) -> String {
    let (_, rest) = page.text.split_once(r#"name="csrf" value=""#).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// Signs in the owner of the data directory, as `sluice open` does.
async fn open(api: &TestApi) -> String {
    let mut ask = request(Method::POST, "/api/v1/session/links", "", "");
    ask.headers_mut().insert("host", HOST.parse().unwrap());
    let link = api.send(ask).await.expect(201);
    let entered = api.page(link["path"].as_str().unwrap(), "").await;
    assert_eq!((entered.status, entered.header("location")), (StatusCode::SEE_OTHER, "/account"));
    let again = api.page(link["path"].as_str().unwrap(), "").await;
    assert_eq!(again.status, StatusCode::UNAUTHORIZED, "a link works once");
    cookie_of(&entered)
}

#[tokio::test]
async fn every_page_forbids_scripts_and_frames() {
    let api = TestApi::new();
    for path in ["/", "/sign-in", "/invitation/x", "/sign-in/link/x", "/setup", "/assets/app.css"] {
        let page = api.page(path, "").await;
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        for inline in ["<script", "<style", " style=", " onclick"] {
            assert!(!page.text.contains(inline), "{path}: {inline}");
        }
    }
}

#[tokio::test]
async fn the_owner_signs_in_by_a_link_and_becomes_the_first_admin() {
    let api = TestApi::new();
    let owner = open(&api).await;
    let account = api.page("/account", &owner).await;
    assert!(account.text.contains("the owner of the data directory"), "{}", account.text);
    let setup = api.page("/setup", &owner).await;
    let csrf = csrf_of(&setup);
    let differ = format!("csrf={csrf}&login=Ada&password={PASSWORD}&again=other");
    let refused = api.send_form("/setup", &differ, &owner).await;
    assert!(refused.text.contains("The two passwords differ"), "{}", refused.text);
    assert!(refused.text.contains(r#"value="Ada""#), "what was typed is kept");
    let weak = format!("csrf={csrf}&login=Ada&password=short&again=short");
    let refused = api.send_form("/setup", &weak, &owner).await;
    assert!(refused.text.contains("A password needs at least 12 characters"), "{}", refused.text);
    let form = format!("csrf={csrf}&login=Ada&password={PASSWORD}&again={PASSWORD}");
    let created = api.send_form("/setup", &form, &owner).await;
    assert_eq!(created.header("location"), "/account");
    let ada = cookie_of(&created);
    let account = api.page("/account", &ada).await;
    assert!(account.text.contains("the first admin, made by the owner"), "{}", account.text);
    assert_eq!(api.page("/account", &owner).await.header("location"), "/sign-in");
    // There is only one first admin.
    let owner = open(&api).await;
    let csrf = csrf_of(&api.page("/setup", &owner).await);
    let form = format!("csrf={csrf}&login=eve&password={PASSWORD}&again={PASSWORD}");
    let refused = api.send_form("/setup", &form, &owner).await;
    assert!(refused.text.contains("There are accounts already"), "{}", refused.text);
    // And others are told whom to ask.
    let forbidden = api.page("/setup", &ada).await;
    assert_eq!(forbidden.status, StatusCode::FORBIDDEN);
    assert!(forbidden.text.contains("Admins here: ada."), "{}", forbidden.text);
}

#[tokio::test]
async fn an_invited_person_sets_a_password_and_signs_in_and_out() {
    let api = TestApi::new();
    let new = json!({ "login": "bob", "role": "auditor", "servers": ["files"] });
    let invited = api.post("/api/v1/people", &new).await.expect(201);
    let path = invited["path"].as_str().unwrap();
    let page = api.page(path, "").await;
    assert!(page.text.contains("You were invited as auditor by admin token."), "{}", page.text);
    let form = format!("password={PASSWORD}&again={PASSWORD}");
    let accepted = api.send_form(path, &form, "").await;
    assert_eq!(accepted.header("location"), "/account");
    assert_eq!(api.page(path, "").await.status, StatusCode::NOT_FOUND, "only once");
    let wrong = api.send_form("/sign-in", "login=bob&password=wrong", "").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(wrong.text.contains("Login or password is wrong."), "{}", wrong.text);
    let form = format!("login=Bob&password={PASSWORD}");
    let bob = cookie_of(&api.send_form("/sign-in", &form, "").await);
    let account = api.page("/account", &bob).await;
    for part in ["auditor", "given by admin token", "files", "this browser"] {
        assert!(account.text.contains(part), "{part}: {}", account.text);
    }
    let csrf = csrf_of(&account);
    let change =
        format!("csrf={csrf}&current={PASSWORD}&password=five+{PASSWORD}&again=five+{PASSWORD}");
    let changed = api.send_form("/account/password", &change, &bob).await;
    assert_eq!(changed.header("location"), "/account");
    let bob = cookie_of(&changed);
    let csrf = csrf_of(&api.page("/account", &bob).await);
    let out = api.send_form("/sign-out-everywhere", &format!("csrf={csrf}"), &bob).await;
    assert!(out.text.contains("You are signed out everywhere."), "{}", out.text);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(api.page("/account", &bob).await.header("location"), "/sign-in");
}

#[tokio::test]
async fn names_are_escaped() {
    let api = TestApi::new();
    let invited = api
        .post("/api/v1/people", &json!({ "login": "eve", "name": "<b>", "role": "viewer" }))
        .await
        .expect(201);
    let form = "password=<script>&again=<i>&login=<u>";
    let page = api.send_form(invited["path"].as_str().unwrap(), form, "").await;
    assert!(!page.text.contains("<script>") && !page.text.contains("<i>"), "{}", page.text);
    let page = api.send_form("/sign-in", "login=%22%3E%3Cscript%3E&password=x", "").await;
    assert!(!page.text.contains("<script>"), "{}", page.text);
}
