//! A gateway on a free port with one server, one policy and one grant.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use sluice_gateway::{
    Builtins, ClientTimes, Commits, Configuration, Gateway, Hops, Settings, ShareLimits, Threads,
};
use sluice_http::address::Reach;
use sluice_listener::AllowedCallers;
use sluice_policy::{Format, Timestamp};
use sluice_store::{
    AttachedPolicy, Clock, Durability, Entry, Filter, Grant, Key, Name, Secret, Server, Source,
    Store, StoreConfig, TokenHash, Transport,
};
use sluice_testkit::{Answer, Folder, RawClient, Recorded, Reply, Upstream};
use sluice_wire::json::{Bounds, Document};
use tokio::net::TcpListener;

pub(crate) const TOKEN: &str = "sg_test_token_of_alice";
pub(crate) const NOON: i64 = 1_767_268_800_000;

/// Everything a test of the data path needs.
pub(crate) struct Harness {
    pub(crate) gateway: Gateway,
    pub(crate) store: Store,
    pub(crate) address: SocketAddr,
    pub(crate) upstream: Upstream,
    pub(crate) clock: Arc<AtomicI64>,
    pub(crate) configuration: Configuration,
    /// The data directory, of a harness that is on disk.
    pub(crate) folder: Folder,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn policy(server: &str, policy: &str, text: &str) -> AttachedPolicy {
    AttachedPolicy {
        server: name(server),
        name: name(policy),
        text: text.to_owned(),
        format: Format::Json,
        version: AttachedPolicy::version_of(text),
        source: Source::File,
        base_files: Vec::new(),
    }
}

pub(crate) fn grant(id: &str, servers: &[&str], policy: &str) -> Grant {
    Grant {
        id: id.to_owned(),
        label: name(id),
        servers: servers.iter().map(|server| name(server)).collect(),
        policy: name(policy),
        principal: None,
        created_at: Timestamp::from_millis(0),
        expires_at: None,
        created_by: None,
        revoked_at: None,
    }
}

pub(crate) fn server(server: &str, url: &str) -> Server {
    Server {
        name: name(server),
        transport: Transport::Http { url: Secret::new(url.to_owned()), headers: Vec::new() },
        timeout: Duration::from_secs(5),
        anonymous_policy: None,
        bridge: sluice_store::Bridge::default(),
        hidden_text: sluice_store::HiddenText::default(),
        mask_secrets: true,
        source: Source::File,
    }
}

impl Harness {
    /// A gateway in front of an upstream that answers by `responder`, for grant
    /// `alice` under this policy.
    pub(crate) async fn start(
        policy_text: &str,
        responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    ) -> Harness {
        let upstream = Upstream::start(responder).await.unwrap();
        let configuration = Harness::configuration(&upstream, policy_text);
        Harness::with(upstream, configuration).await
    }

    /// The same with a store on disk, for tests that are about the disk.
    pub(crate) async fn on_disk(
        policy_text: &str,
        responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    ) -> Harness {
        let upstream = Upstream::start(responder).await.unwrap();
        let configuration = Harness::configuration(&upstream, policy_text);
        Harness::build(upstream, configuration, |_| (), open_on_disk).await
    }

    /// One server, one policy and one grant.
    pub(crate) fn configuration(upstream: &Upstream, policy_text: &str) -> Configuration {
        Configuration {
            servers: vec![server("notes", &upstream.url())],
            policies: vec![policy("notes", "rules", policy_text)],
            grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
        }
    }

    pub(crate) async fn with(upstream: Upstream, configuration: Configuration) -> Harness {
        Harness::tuned(upstream, configuration, |_| ()).await
    }

    /// The same with other settings.
    pub(crate) async fn tuned(
        upstream: Upstream,
        configuration: Configuration,
        tune: impl FnOnce(&mut Settings),
    ) -> Harness {
        Harness::build(upstream, configuration, tune, |_, clock| Store::memory(clock)).await
    }

    async fn build(
        upstream: Upstream,
        configuration: Configuration,
        tune: impl FnOnce(&mut Settings),
        open: impl FnOnce(&Folder, Clock) -> Store,
    ) -> Harness {
        let folder = Folder::new().unwrap();
        let key = Key::from_bytes([7; 32]);
        let clock = Arc::new(AtomicI64::new(NOON));
        let store = open(&folder, Clock::Fixed(Arc::clone(&clock)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = Settings {
            callers: AllowedCallers::new(
                ["localhost", "127.0.0.1", "::1"],
                ["https://allowed.example"],
            )
            .unwrap(),
            launch: sluice_stdio::Launch::default(),
            is_loopback: true,
            bounds: Bounds::default(),
            in_flight: 1 << 30,
            answer: 16 << 20,
            reach: Reach::default(),
            shares: ShareLimits::NONE,
            hops: Hops::new(Timestamp::from_millis(NOON), None),
            descriptors: 100_000,
            times: ClientTimes::default(),
            admin_url: "http://127.0.0.1:8788".into(),
            recorded: Vec::new(),
            key,
            clock: Clock::Fixed(Arc::clone(&clock)),
        };
        tune(&mut settings);
        let gateway = Gateway::new(settings, store.clone(), Builtins::new()).unwrap();
        gateway.apply(&configuration).unwrap();
        let address = listener.local_addr().unwrap();
        let served = gateway.clone();
        tokio::spawn(async move {
            let threads = Threads::start(Commits::WithCalls).unwrap();
            served.serve(listener, None, &threads, std::future::pending()).await;
        });
        Harness { gateway, store, address, upstream, clock, configuration, folder }
    }

    /// Sends bytes as they are, and reads one answer.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Answer {
        let mut client = RawClient::connect(self.address).await.unwrap();
        client.send(bytes).await.unwrap();
        client.answer().await.unwrap().unwrap_or_default()
    }

    /// Posts a body with these headers besides the usual ones.
    pub(crate) async fn post_with(&self, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.raw(&request("POST", "/mcp/notes", self.address, headers, body)).await
    }

    /// Posts a legacy message.
    pub(crate) async fn post(&self, body: &str) -> Answer {
        self.post_with(&[], body.as_bytes()).await
    }

    /// Calls a tool with arguments, and gives the whole answer.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Answer {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        );
        self.post(&body).await
    }

    /// Moves the clock on.
    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    /// Waits until nothing more is to be written, and gives all records, the oldest first.
    pub(crate) async fn records(&self) -> Vec<Document> {
        self.store.flush().await.unwrap();
        let read = |text: String| Document::parse(text, &Bounds::default()).unwrap();
        self.texts().await.into_iter().map(read).collect()
    }

    /// All records as they are exported, the oldest first.
    pub(crate) async fn texts(&self) -> Vec<String> {
        let page = self.store.page(&Filter::default(), usize::MAX).await.unwrap();
        page.entries.iter().map(Entry::text).collect()
    }

    /// Checks that the log is as it was written.
    pub(crate) async fn verify(&self) {
        assert_eq!(self.store.verify().await.unwrap().faults, []);
    }
}

fn open_on_disk(folder: &Folder, clock: Clock) -> Store {
    let config = StoreConfig {
        retention: None,
        directory: folder.join(""),
        durability: Durability::Process,
        key: Key::from_bytes([7; 32]),
        clock,
        accept_loss: false,
    };
    Store::open(config).unwrap()
}

/// A request with the usual headers, unless others are given.
pub(crate) fn request(
    method: &str,
    path: &str,
    address: SocketAddr,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let usual = [
        ("host", address.to_string()),
        ("authorization", format!("Bearer {TOKEN}")),
        ("content-type", "application/json".into()),
        ("accept", "application/json, text/event-stream".into()),
        ("content-length", body.len().to_string()),
    ];
    let mut lines = vec![format!("{method} {path} HTTP/1.1\r\n")];
    for (name, value) in usual {
        if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            lines.push(format!("{name}: {value}\r\n"));
        }
    }
    // A header with the value `-` is left out.
    lines.extend(
        headers
            .iter()
            .filter(|(_, value)| *value != "-")
            .map(|(name, value)| format!("{name}: {value}\r\n")),
    );
    lines.push("\r\n".into());
    let mut bytes = lines.concat().into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A JSON answer, read.
pub(crate) fn json(answer: &Answer) -> Document {
    Document::parse(answer.body.clone(), &Bounds::default())
        .unwrap_or_else(|refusal| panic!("{refusal}: {}", answer.text()))
}

/// The value at a path of names, as compact JSON; empty if it is not there.
pub(crate) fn at(document: &Document, path: &str) -> String {
    let mut value = Some(document.root());
    for step in path.split('/').filter(|step| !step.is_empty()) {
        value = value.and_then(|value| match step.parse::<usize>() {
            Ok(place) if value.items().is_some() => value.items()?.nth(place),
            _ => value.get(&step.replace('~', "/")),
        });
    }
    value.map(|value| value.to_string()).unwrap_or_default()
}
