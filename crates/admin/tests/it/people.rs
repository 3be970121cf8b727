//! People, their sessions and API tokens, and what each role may do.

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use serde_json::{Value, json};
use sluice_store::{Access, NewPerson, Role, Secret, TokenHash};

use crate::{
    described::list_operations,
    fixture::{HOST, Reply, TestApi},
};

const PASSWORD: &str = "four words in a row";

/// A request with other headers than the admin token.
fn plain(method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path).header("host", HOST);
    let builder =
        headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    let builder =
        if body.is_empty() { builder } else { builder.header("content-type", "application/json") };
    builder.body(Body::from(body.to_owned())).unwrap()
}

/// Invites a person, and accepts as they would.
async fn join(api: &TestApi, login: &str, role: &str, servers: Option<&[&str]>) -> Value {
    let mut new = json!({ "login": login, "role": role });
    if let Some(servers) = servers {
        new["servers"] = json!(servers);
    }
    let invited = api.post("/api/v1/people", &new).await.expect(201);
    let form = format!("password={PASSWORD}&again={PASSWORD}").replace(' ', "+");
    let accepted = api.send_form(invited["path"].as_str().unwrap(), &form, "").await;
    assert_eq!(accepted.status, StatusCode::SEE_OTHER, "{}", accepted.text);
    invited["person"].clone()
}

/// A session of a person: the cookie, and the CSRF token.
async fn sign_in(api: &TestApi, login: &str) -> (String, String) {
    let reply = try_sign_in(api, login, PASSWORD).await;
    let begun = reply.expect(201);
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    (cookie, begun["csrf_token"].as_str().unwrap().to_owned())
}

async fn try_sign_in(api: &TestApi, login: &str, password: &str) -> Reply {
    let body = json!({ "login": login, "password": password }).to_string();
    api.send(plain(Method::POST, "/api/v1/session", &[], &body)).await
}

async fn get_with(api: &TestApi, path: &str, cookie: &str) -> Reply {
    api.send(plain(Method::GET, path, &[("cookie", cookie)], "")).await
}

/// An API token for a person who was never invited: much faster than signing in.
async fn token_of(api: &TestApi, role: Role, servers: Option<&[&str]>) -> String {
    let access = Access {
        role,
        servers: servers.map(|names| names.iter().map(|name| crate::fixture::name(name)).collect()),
    };
    let new = NewPerson {
        login: format!("{}-{}", role.name(), servers.map_or(0, <[_]>::len)),
        name: "x".into(),
        access,
        reason: "a test".into(),
        identity: None,
        password: Some(Secret::new("x".into())),
        invitation: None,
    };
    let edit = || sluice_store::Edit {
        actor: sluice_store::Actor::local("t", "test"),
        message: "made".into(),
    };
    let person = api.store.create_person(new, edit()).await.unwrap();
    let login = person.login;
    let body = json!({ "login": login, "label": "ci", "expires": "1d" });
    let issued = api.post("/api/v1/tokens", &body).await.expect(201);
    issued["token"].as_str().unwrap().to_owned()
}

/// Every operation of the document, by every role: refused with 403 just where the document
/// does not name the role.
#[tokio::test]
async fn each_role_may_do_what_the_document_says_and_no_more() {
    let api = TestApi::new();
    let document = api.get("/api/v1/openapi.json").await.expect(200);
    for role in Role::ALL {
        let token = token_of(&api, role, None).await;
        let bearer = format!("Bearer {token}");
        let mut refused = 0;
        for operation in list_operations(&document) {
            let Some(path) = operation.path.strip_prefix("/api/v1") else { continue };
            if path == "/session" && operation.method == Method::POST {
                continue;
            }
            let roles = operation.described["x-roles"].as_array();
            let roles = roles.unwrap_or_else(|| panic!("{path} names no roles"));
            // Nothing is there, so that nothing changes; what matters is that this is found out.
            let path = path.replace("{name}", "nosuch").replace("{policy}", "nosuch");
            let path = path.replace(['{', '}'], "");
            // A stream would never end.
            let path = path.replace("/events", "/events?kind=nosuch");
            let headers = [("authorization", &*bearer)];
            let sent = plain(operation.method.clone(), &format!("/api/v1{path}"), &headers, "");
            let reply = api.send(sent).await;
            let is_forbidden = reply.status == StatusCode::FORBIDDEN
                && reply.json()["type"] == "urn:sluicegate:problem:forbidden";
            let may = roles.iter().any(|name| name == role.name());
            assert_eq!(is_forbidden, !may, "{role:?} {} {path}: {}", operation.method, reply.text);
            refused += usize::from(is_forbidden);
        }
        assert_eq!(refused == 0, role == Role::Admin, "{role:?}");
    }
}

#[tokio::test]
async fn a_role_on_some_servers_sees_and_changes_only_those() {
    let api = TestApi::new();
    for name in ["a", "b"] {
        let server = json!({ "name": name, "url": format!("https://{name}.example.com/") });
        api.post("/api/v1/servers", &server).await.expect(201);
        let grant = json!({ "servers": [name], "label": format!("of-{name}"), "policy": "p" });
        api.post("/api/v1/grants", &grant).await.expect(201);
    }
    let both = json!({ "servers": ["a", "b"], "label": "of-both", "policy": "p" });
    api.post("/api/v1/grants", &both).await.expect(201);
    let token = token_of(&api, Role::Admin, Some(&["a"])).await;
    let bearer = format!("Bearer {token}");
    let send = async |method: Method, path: &str, body: &str| {
        let headers = [("authorization", &*bearer)];
        api.send(plain(method, &format!("/api/v1{path}"), &headers, body)).await
    };
    let servers = send(Method::GET, "/servers", "").await.expect(200);
    assert_eq!(servers["servers"].as_array().unwrap().len(), 1);
    let grants = send(Method::GET, "/grants", "").await.expect(200);
    let labels: Vec<_> =
        grants["grants"].as_array().unwrap().iter().map(|grant| grant["label"].clone()).collect();
    assert_eq!(labels, ["of-a", "of-both"]);
    send(Method::GET, "/servers/a", "").await.expect(200);
    send(Method::GET, "/audit?server=a", "").await.expect(200);
    send(Method::PATCH, "/servers/a", r#"{"timeout":"5s"}"#).await.expect(200);
    send(Method::PATCH, "/grants/of-a", r#"{"policy":"q"}"#).await.expect(200);
    for (method, path, body) in [
        (Method::GET, "/servers/b", ""),
        // A name is compared as handlers read it.
        (Method::GET, "/servers/%62", ""),
        (Method::PATCH, "/servers/b", r#"{"timeout":"5s"}"#),
        (Method::DELETE, "/servers/b", ""),
        (Method::GET, "/servers/b/policies", ""),
        (Method::PUT, "/servers/b/policies/p", r#"{"version":"1","default":"allow"}"#),
        (Method::POST, "/servers", r#"{"name":"c","url":"https://c.example.com/"}"#),
        (Method::POST, "/policies/suggest", r#"{"server":"b"}"#),
        (Method::POST, "/policies/check?server=b", r#"{"version":"1","default":"allow"}"#),
        (Method::GET, "/grants/of-b", ""),
        (Method::PATCH, "/grants/of-b", r#"{"policy":"q"}"#),
        (Method::PATCH, "/grants/of-both", r#"{"policy":"q"}"#),
        (Method::PATCH, "/grants/of-a", r#"{"servers":["a","b"]}"#),
        (Method::POST, "/grants/of-both/rotate", ""),
        (Method::DELETE, "/grants/of-both", ""),
        (Method::POST, "/grants", r#"{"servers":["a","b"],"label":"x","policy":"p"}"#),
        (Method::GET, "/audit", ""),
        (Method::GET, "/audit/export?server=b", ""),
        // These are about all servers.
        (Method::GET, "/people", ""),
        (Method::POST, "/audit/verify", ""),
    ] {
        let reply = send(method.clone(), path, body).await;
        let problem = reply.expect(403);
        assert_eq!(problem["type"], "urn:sluicegate:problem:forbidden", "{method} {path}");
    }
    let servers = api.get("/api/v1/servers").await.expect(200);
    assert_eq!(servers["servers"].as_array().unwrap().len(), 3, "nothing has changed");
}

#[tokio::test]
async fn a_policy_manager_attaches_policies_and_touches_no_token() {
    let api = TestApi::new();
    let grant = json!({ "servers": ["files"], "label": "l", "policy": "p" });
    api.post("/api/v1/grants", &grant).await.expect(201);
    let bearer = format!("Bearer {}", token_of(&api, Role::PolicyManager, None).await);
    let patch = async |body: &str| {
        let headers = [("authorization", &*bearer)];
        api.send(plain(Method::PATCH, "/api/v1/grants/l", &headers, body)).await
    };
    assert_eq!(patch(r#"{"policy":"q"}"#).await.expect(200)["policy"], "q");
    for body in [r#"{"servers":["files"]}"#, r#"{"policy":"q","expires":"1d"}"#, r#"{"label":"m"}"#]
    {
        patch(body).await.expect(403);
    }
}

#[tokio::test]
async fn what_a_person_does_is_recorded_with_name_and_address() {
    let api = TestApi::new();
    join(&api, "Alice@Example.com", "admin", None).await;
    let (cookie, csrf) = sign_in(&api, "alice@example.com").await;
    let server = json!({ "name": "a", "url": "https://a.example.com/" }).to_string();
    let headers = [("cookie", &*cookie), ("x-csrf-token", &csrf)];
    api.send(plain(Method::POST, "/api/v1/servers", &headers, &server)).await.expect(201);
    let token = json!({ "label": "ci" }).to_string();
    let issued =
        api.send(plain(Method::POST, "/api/v1/tokens", &headers, &token)).await.expect(201);
    let bearer = format!("Bearer {}", issued["token"].as_str().unwrap());
    let headers = [("authorization", &*bearer)];
    api.send(plain(Method::DELETE, "/api/v1/servers/a", &headers, "")).await.expect(204);
    api.store.flush().await.unwrap();
    let page = api.store.page(&sluice_store::Filter::default(), 100).await.unwrap();
    let lines: Vec<_> = page
        .entries
        .iter()
        .map(|entry| {
            let record = &entry.record;
            let actor = record.actor.as_ref().unwrap();
            assert_eq!(actor.address.as_deref(), Some("127.0.0.1"));
            format!("{}: {}", actor.label, record.message.as_deref().unwrap())
        })
        .collect();
    let expected = [
        "admin token: person `alice@example.com` invited as admin, by admin token",
        "alice@example.com: `alice@example.com` accepted the invitation",
        "alice@example.com: `alice@example.com` signed in by an invitation",
        "alice@example.com: `alice@example.com` signed in with a password",
        "alice@example.com: server `a` added",
    ];
    assert_eq!(lines.get(..5).unwrap(), expected, "{lines:#?}");
    assert!(lines[5].starts_with(
        "alice@example.com: API token `ci` of `alice@example.com` created: admin, until "
    ));
    assert_eq!(lines[6], "alice@example.com (token ci): server `a` removed");
}

#[tokio::test]
async fn a_session_needs_its_csrf_token_to_change_anything() {
    let api = TestApi::new();
    join(&api, "alice", "admin", None).await;
    let (cookie, csrf) = sign_in(&api, "alice").await;
    let other = sign_in(&api, "alice").await.1;
    get_with(&api, "/api/v1/servers", &cookie).await.expect(200);
    let remove = |headers: &[(&str, &str)]| {
        plain(Method::DELETE, "/api/v1/session?everywhere=true", headers, "")
    };
    let shorter = csrf.get(1..).unwrap();
    for forged in ["", &other, shorter, "null"] {
        let headers = [("cookie", &*cookie), ("x-csrf-token", forged)];
        let problem = api.send(remove(&headers)).await.expect(403);
        assert_eq!(problem["type"], "urn:sluicegate:problem:csrf");
    }
    api.send(remove(&[("cookie", &cookie)])).await.expect(403);
    // Forms of other sites come without it, too.
    for path in ["/sign-out", "/sign-out-everywhere", "/account/password", "/setup"] {
        let reply = api.send_form(path, "csrf=x&password=a", &cookie).await;
        assert_eq!(reply.header("location"), "/sign-in", "{path}");
    }
    get_with(&api, "/api/v1/servers", &cookie).await.expect(200);
    let headers = [("cookie", &*cookie), ("x-csrf-token", &*csrf)];
    api.send(remove(&headers)).await.expect(204);
    get_with(&api, "/api/v1/servers", &cookie).await.expect(401);
}

#[tokio::test]
async fn sessions_end_with_sign_out_password_disabling_and_removal() {
    let api = TestApi::new();
    join(&api, "root", "admin", None).await;
    let alice = join(&api, "alice", "viewer", None).await;
    let path = format!("/api/v1/people/{}", alice["id"].as_str().unwrap());
    let (one, csrf) = sign_in(&api, "alice").await;
    let (other, _) = sign_in(&api, "alice").await;
    assert_ne!(one, other, "a session is new each time");
    let headers = [("cookie", &*one), ("x-csrf-token", &*csrf)];
    api.send(plain(Method::DELETE, "/api/v1/session", &headers, "")).await.expect(204);
    get_with(&api, "/api/v1/session", &one).await.expect(401);
    get_with(&api, "/api/v1/session", &other).await.expect(200);
    // A new password ends all sessions, and begins one.
    let (third, csrf) = sign_in(&api, "alice").await;
    let headers = [("cookie", &*third), ("x-csrf-token", &*csrf)];
    let change = |current: &str, new: &str| {
        let body = json!({ "current": current, "new": new }).to_string();
        plain(Method::PUT, "/api/v1/session/password", &headers, &body)
    };
    api.send(change("wrong", "five words in a row now")).await.expect(422);
    api.send(change(PASSWORD, "short")).await.expect(422);
    let changed = api.send(change(PASSWORD, "five words in a row now")).await;
    changed.expect(200);
    for cookie in [&other, &third] {
        get_with(&api, "/api/v1/session", cookie).await.expect(401);
    }
    let new = changed.header("set-cookie").split(';').next().unwrap().to_owned();
    get_with(&api, "/api/v1/session", &new).await.expect(200);
    api.patch(&path, &json!({ "disabled": true }), "").await.expect(200);
    get_with(&api, "/api/v1/session", &new).await.expect(401);
    try_sign_in(&api, "alice", "five words in a row now").await.expect(401);
    api.patch(&path, &json!({ "disabled": false }), "").await.expect(200);
    try_sign_in(&api, "alice", "five words in a row now").await.expect(201);
    api.delete(&path).await.expect(204);
    try_sign_in(&api, "alice", "five words in a row now").await.expect(401);
}

/// Time stands still here, so that no wait is over before it is seen.
#[tokio::test(start_paused = true)]
async fn sign_ins_are_limited_for_each_login() {
    let api = TestApi::new();
    join(&api, "alice", "viewer", None).await;
    join(&api, "bob", "viewer", None).await;
    // A login that nobody has is treated alike.
    for login in ["alice", "nobody"] {
        let mut limited = 0;
        for _ in 0..9 {
            let reply = try_sign_in(&api, login, "wrong").await;
            if reply.status == StatusCode::TOO_MANY_REQUESTS {
                let wait: u64 = reply.header("retry-after").parse().unwrap();
                assert!((1..=60).contains(&wait), "{wait}");
                limited += 1;
            } else {
                reply.expect(401);
            }
        }
        assert!(limited >= 1, "{login}");
    }
    assert_eq!(try_sign_in(&api, "alice", PASSWORD).await.status, StatusCode::TOO_MANY_REQUESTS);
    try_sign_in(&api, "bob", PASSWORD).await.expect(201);
}

#[tokio::test]
async fn the_last_admin_stays_and_edits_are_not_lost() {
    let api = TestApi::new();
    let root = join(&api, "root", "admin", None).await;
    let path = format!("/api/v1/people/{}", root["id"].as_str().unwrap());
    for patch in
        [json!({ "role": "viewer" }), json!({ "disabled": true }), json!({ "servers": ["files"] })]
    {
        assert!(api.patch(&path, &patch, "").await.expect(409)["hint"].is_string());
    }
    api.delete(&path).await.expect(409);
    let tag = api.get(&path).await.header("etag").to_owned();
    api.patch(&path, &json!({ "name": "Root" }), &tag).await.expect(200);
    api.patch(&path, &json!({ "name": "Toor" }), &tag).await.expect(412);
    join(&api, "second", "admin", None).await;
    api.delete(&path).await.expect(204);
}

#[tokio::test]
async fn an_api_token_does_no_more_than_its_person() {
    let api = TestApi::new();
    let alice = join(&api, "alice", "viewer", None).await;
    let create = async |body: &Value| api.post("/api/v1/tokens", body).await;
    // It asks for more than its person may.
    let body = json!({ "login": "alice", "label": "greedy", "role": "admin" });
    let issued = create(&body).await.expect(201);
    let bearer = format!("Bearer {}", issued["token"].as_str().unwrap());
    let send = async |method: Method, path: &str, body: &str| {
        let headers = [("authorization", &*bearer)];
        api.send(plain(method, &format!("/api/v1{path}"), &headers, body)).await
    };
    send(Method::GET, "/servers", "").await.expect(200);
    send(Method::POST, "/servers", r#"{"name":"a","url":"https://a.example.com/"}"#)
        .await
        .expect(403);
    // A stolen token makes no others.
    send(Method::POST, "/tokens", r#"{"label":"child"}"#).await.expect(409);
    create(&body).await.expect(409);
    create(&json!({ "label": "x" })).await.expect(422);
    create(&json!({ "login": "alice", "label": "x", "expires": "400d" })).await.expect(422);
    create(&json!({ "login": "nobody", "label": "x" })).await.expect(404);
    let listed = send(Method::GET, "/tokens", "").await.expect(200);
    assert_eq!(listed["tokens"][0]["login"], "alice");
    assert!(listed["tokens"][0]["last_used"].is_string());
    assert!(!listed.to_string().contains("sgp_"), "the text is shown once");
    let path = format!("/tokens/{}", issued["id"].as_str().unwrap());
    send(Method::DELETE, &path, "").await.expect(204);
    send(Method::GET, "/servers", "").await.expect(401);
    // Tokens of others are not there for a viewer.
    let of_root = token_of(&api, Role::Admin, None).await;
    let root = api.store.api_token_of(&TokenHash::of(&of_root)).await.unwrap().unwrap().0;
    let (cookie, csrf) = sign_in(&api, "alice").await;
    let headers = [("cookie", &*cookie), ("x-csrf-token", &*csrf)];
    let path = format!("/api/v1/tokens/{}", root.id);
    api.send(plain(Method::DELETE, &path, &headers, "")).await.expect(404);
    let for_root = json!({ "login": "admin-0", "label": "mine" }).to_string();
    api.send(plain(Method::POST, "/api/v1/tokens", &headers, &for_root)).await.expect(403);
    let own = get_with(&api, "/api/v1/tokens", &cookie).await.expect(200);
    assert!(own["tokens"].as_array().unwrap().iter().all(|token| token["login"] == "alice"));
    // A disabled person has no token either.
    let issued = create(&json!({ "login": "alice", "label": "late" })).await.expect(201);
    let bearer = format!("Bearer {}", issued["token"].as_str().unwrap());
    let headers = [("authorization", &*bearer)];
    let status = || plain(Method::GET, "/api/v1/session", &headers, "");
    api.send(status()).await.expect(200);
    let path = format!("/api/v1/people/{}", alice["id"].as_str().unwrap());
    api.patch(&path, &json!({ "disabled": true }), "").await.expect(200);
    api.send(status()).await.expect(401);
}

#[tokio::test]
async fn a_session_cannot_be_fixed_by_another_cookie() {
    let api = TestApi::new();
    join(&api, "alice", "viewer", None).await;
    let body = json!({ "login": "alice", "password": PASSWORD }).to_string();
    let planted = [("cookie", "__Host-sluice=planted")];
    let reply = api.send(plain(Method::POST, "/api/v1/session", &planted, &body)).await;
    reply.expect(201);
    assert!(!reply.header("set-cookie").contains("planted"));
    get_with(&api, "/api/v1/session", "__Host-sluice=planted").await.expect(401);
    let (cookie, _) = sign_in(&api, "alice").await;
    let both = format!("__Host-sluice=planted; {cookie}");
    get_with(&api, "/api/v1/session", &both).await.expect(401);
}
