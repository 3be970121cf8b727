//! A people's api of its own for each test, and calling it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, Response, StatusCode},
};
use http_body_util::BodyExt as _;
use serde_json::Value;
use sluice_admin::{
    Api, Eventual, FileProblem, FileVersion, HeadExport, InForce, Live, Running, Settings,
    TakeError, Tool,
};
use sluice_classify::{Definition, Siblings, classify};
use sluice_listener::AllowedCallers;
use sluice_policy::{Format, Timestamp};
use sluice_store::{
    AttachedPolicy, Clock, Filter, Grant, Name, Secret, Server, Source, Store, TokenHash, Transport,
};
use sluice_testkit::Folder;
use sluice_wire::json::{Bounds, Document};
use tower::ServiceExt as _;

use crate::described;

pub(crate) const TOKEN: &str = "sga_test";
pub(crate) const HOST: &str = "127.0.0.1:8788";

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A gateway that has one server, one policy and one grant from a file, and takes
/// what the store holds unless it is told not to.
pub(crate) struct Fake {
    store: Store,
    in_force: Mutex<Arc<InForce>>,
    pub(crate) refuses: Mutex<Option<String>>,
    pub(crate) grants: Mutex<BTreeMap<TokenHash, Grant>>,
    pub(crate) asked_anew: Mutex<bool>,
}

pub(crate) fn declared() -> InForce {
    let server = Server {
        name: name("files"),
        transport: Transport::Http {
            url: Secret::new("https://files.example.com/mcp?key=hush".into()),
            headers: vec![("authorization".into(), Secret::new("hush".into()))],
        },
        timeout: std::time::Duration::from_mins(1),
        anonymous_policy: None,
        bridge: sluice_store::Bridge::default(),
        hidden_text: sluice_store::HiddenText::default(),
        mask_secrets: true,
        source: Source::File,
    };
    let text = r#"{"version":"1","default":"deny"}"#;
    let policy = AttachedPolicy {
        server: name("files"),
        name: name("declared"),
        text: text.into(),
        format: Format::Json,
        version: AttachedPolicy::version_of(text),
        source: Source::File,
        base_files: Vec::new(),
    };
    let grant = Grant {
        id: "file:alice".into(),
        label: name("alice"),
        servers: vec![name("files")],
        policy: name("declared"),
        principal: None,
        created_at: Timestamp::from_millis(0),
        expires_at: None,
        created_by: None,
        revoked_at: None,
    };
    InForce {
        servers: vec![server],
        policies: vec![policy],
        file_grants: vec![grant],
        problems: Vec::new(),
    }
}

impl Fake {
    /// Gives a server a policy for callers without a token.
    pub(crate) fn let_anyone_call(&self, server: &str, policy: &str) {
        let mut in_force = self.in_force.lock().unwrap();
        let mut servers = in_force.servers.clone();
        for one in servers.iter_mut().filter(|one| one.name.as_str() == server) {
            one.anonymous_policy = Some(name(policy));
        }
        let policies = in_force.policies.clone();
        *in_force = Arc::new(InForce { servers, policies, ..declared() });
    }
}

impl Live for Fake {
    fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.lock().unwrap())
    }

    fn take_stored(&self) -> Eventual<'_, Result<(), TakeError>> {
        Box::pin(async {
            if let Some(reason) = self.refuses.lock().unwrap().clone() {
                return Err(TakeError(reason));
            }
            let mut all = declared();
            let stored = self.store.snapshot().await.unwrap();
            all.servers.extend(stored.servers);
            all.policies.extend(stored.policies);
            *self.in_force.lock().unwrap() = Arc::new(all);
            Ok(())
        })
    }

    fn set_grant(&self, token: &TokenHash, grant: Option<&Grant>) {
        let mut grants = self.grants.lock().unwrap();
        match grant {
            Some(grant) => grants.insert(*token, grant.clone()),
            None => grants.remove(token),
        };
    }

    fn check_address<'a>(&'a self, _: &'a Secret) -> Eventual<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn store_uses(&self) -> Eventual<'_, ()> {
        Box::pin(async {})
    }

    fn problems(&self) -> Vec<FileProblem> {
        vec![FileProblem {
            file: "sluice.toml".into(),
            line: 3,
            column: 1,
            message: "no".into(),
            hint: None,
        }]
    }

    fn running(&self) -> Option<Running> {
        Some(Running {
            started_at: Timestamp::from_millis(0),
            listen: ([127, 0, 0, 1], 8787).into(),
            admin: ([127, 0, 0, 1], 8788).into(),
            config: FileVersion {
                version: "0123456789abcdef".into(),
                loaded_at: Timestamp::from_millis(1_000),
                reloaded_at: Some(Timestamp::from_millis(2_000)),
                is_reload_ok: false,
            },
        })
    }

    fn tools<'a>(
        &'a self,
        server: &'a Name,
        fresh: bool,
    ) -> Eventual<'a, Result<Vec<Tool>, String>> {
        *self.asked_anew.lock().unwrap() |= fresh;
        let is_up = server.as_str() == "files";
        let definition = r#"{"name":"read","inputSchema":{"maximum":1.50}}"#;
        let document = Document::parse(definition, &Bounds::default()).unwrap();
        let read = Definition::from_tool(document.root()).unwrap();
        let assessment = classify(&read, &Siblings::default());
        let tool = || Tool {
            name: "read".into(),
            assessment: assessment.clone(),
            definition: definition.into(),
        };
        let tools = is_up.then(|| vec![tool()]).ok_or("it ended: \"no key\"".to_owned());
        Box::pin(async move { tools })
    }

    fn head_exports(&self) -> Vec<HeadExport> {
        Vec::new()
    }

    fn metrics(&self) -> String {
        "sluice_up 1\n".into()
    }
}

pub(crate) struct TestApi {
    pub(crate) live: Arc<Fake>,
    pub(crate) store: Store,
    router: Router,
    pub(crate) folder: Folder,
}

/// What came back.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if status >= 400 {
            assert_eq!(self.headers["content-type"], "application/problem+json");
            assert_eq!(self.json()["status"], status);
        }
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

impl TestApi {
    pub(crate) fn new() -> TestApi {
        TestApi::with(true)
    }

    pub(crate) fn with(are_metrics_open: bool) -> TestApi {
        let folder = Folder::new().unwrap();
        let store = Store::memory(Clock::System);
        let live = Arc::new(Fake {
            store: store.clone(),
            in_force: Mutex::new(Arc::new(declared())),
            refuses: Mutex::default(),
            grants: Mutex::default(),
            asked_anew: Mutex::default(),
        });
        let router = api(&live, &store, &folder, are_metrics_open).router();
        TestApi { live, store, router, folder }
    }

    /// The same api, to be served.
    pub(crate) fn api(&self) -> Api {
        api(&self.live, &self.store, &self.folder, true)
    }

    /// Sends a request, and checks the answer against the OpenAPI document.
    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let sent = String::from_utf8(body.clone().into()).unwrap();
        let (method, uri) = (parts.method.clone(), parts.uri.clone());
        let reply = self.send_unchecked(Request::from_parts(parts, Body::from(body))).await;
        described::check(&method, &uri, &sent, &reply);
        reply
    }

    /// An answer whose body goes on.
    pub(crate) async fn open(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send_unchecked(&self, request: Request<Body>) -> Reply {
        let response = self.open(request).await;
        let (parts, body) = response.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(text.into()).unwrap(),
        }
    }

    /// A page, as the browser with this cookie gets it.
    pub(crate) async fn page(&self, path: &str, cookie: &str) -> Reply {
        let request = Request::builder().uri(path).header("host", HOST).header("cookie", cookie);
        self.send_unchecked(request.body(Body::empty()).unwrap()).await
    }

    /// Sends a form of a page of this listener.
    pub(crate) async fn send_form(&self, path: &str, form: &str, cookie: &str) -> Reply {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("host", HOST)
            .header("origin", format!("http://{HOST}"))
            .header("cookie", cookie)
            .header("content-type", "application/x-www-form-urlencoded");
        self.send_unchecked(request.body(Body::from(form.to_owned())).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(request(Method::GET, path, "", "")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(request(Method::POST, path, "application/json", &body.to_string())).await
    }

    /// Changes an object, if it has this entity tag; an empty one admits any.
    pub(crate) async fn patch(&self, path: &str, body: &Value, tag: &str) -> Reply {
        let mut edit = request(Method::PATCH, path, "application/json", &body.to_string());
        if !tag.is_empty() {
            edit.headers_mut().insert("if-match", tag.parse().unwrap());
        }
        self.send(edit).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(request(Method::DELETE, path, "", "")).await
    }

    /// The messages of the log, the oldest first.
    pub(crate) async fn messages(&self) -> Vec<String> {
        self.store.flush().await.unwrap();
        let page = self.store.page(&Filter::default(), usize::MAX).await.unwrap();
        page.entries.into_iter().map(|entry| entry.record.message.unwrap_or_default()).collect()
    }
}

fn api(live: &Arc<Fake>, store: &Store, folder: &Folder, are_metrics_open: bool) -> Api {
    let settings = Settings {
        callers: AllowedCallers::new(["127.0.0.1", "localhost"], ["https://app.example.com"])
            .unwrap(),
        are_metrics_open,
        catalog: folder.join("catalog.db"),
    };
    Api::new(Arc::clone(live), store.clone(), Secret::new(TOKEN.into()), settings)
}

/// A request of an administrator.
pub(crate) fn request(method: Method, path: &str, media_type: &str, body: &str) -> Request<Body> {
    let builder = Request::builder()
        .method(method)
        .uri(path)
        .header("host", HOST)
        .header("authorization", format!("Bearer {TOKEN}"));
    let builder = match media_type {
        "" => builder,
        media_type => builder.header("content-type", media_type),
    };
    builder.body(Body::from(body.to_owned())).unwrap()
}
