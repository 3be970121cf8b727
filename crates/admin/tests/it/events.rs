//! `/events`.

use std::net::SocketAddr;

use axum::{
    body::{Body, BodyDataStream, HttpBody as _},
    extract::ConnectInfo,
    http::{Method, Request, Response},
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use crate::fixture::{HOST, TOKEN, TestApi, request};

const EVENTS: &str = "/api/v1/events";

fn ask(path: &str, last: Option<&str>, network: u8) -> Request<Body> {
    let mut request = request(Method::GET, path, "", "");
    if let Some(last) = last {
        request.headers_mut().insert("last-event-id", last.parse().unwrap());
    }
    let address = SocketAddr::from(([10, 0, 0, network], 1));
    request.extensions_mut().insert(ConnectInfo(address));
    request
}

/// A stream that is read event by event.
struct Stream {
    body: BodyDataStream,
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Event {
    id: Option<String>,
    kind: String,
    data: Value,
}

impl Stream {
    #[track_caller]
    fn of(response: Response<Body>) -> Stream {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(!response.body().is_end_stream());
        Stream { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// The next event or comment, or `None` at the end.
    async fn next(&mut self) -> Option<Event> {
        while !self.text.contains("\n\n") {
            let chunk = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        let (event, rest) = self.text.split_once("\n\n").unwrap();
        let field = |name: &str| {
            event.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
        };
        let event = Event {
            id: field("id:"),
            kind: field("event:").unwrap_or_default(),
            data: field("data:")
                .map(|data| serde_json::from_str(&data).unwrap())
                .unwrap_or_default(),
        };
        self.text = rest.to_owned();
        Some(event)
    }

    async fn next_of(&mut self, kind: &str) -> Event {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if event.kind == kind {
                return event;
            }
        }
    }
}

async fn open(api: &TestApi, path: &str, last: Option<&str>) -> Stream {
    Stream::of(api.open(ask(path, last, 1)).await)
}

async fn add_server(api: &TestApi, name: &str) {
    let server = json!({"name": name, "url": "https://a.example.com/"});
    api.post("/api/v1/servers", &server).await.expect(201);
}

#[tokio::test]
async fn changes_are_told_with_their_records_and_reading_resumes_after_them() {
    let api = TestApi::new();
    let mut stream = open(&api, EVENTS, None).await;
    let health = stream.next().await.unwrap();
    assert_eq!((health.kind.as_str(), &health.data["ok"]), ("health", &true.into()));
    let problems = stream.next().await.unwrap();
    assert_eq!(problems.data["problems"][0]["file"], "sluice.toml");
    add_server(&api, "one").await;
    let first = stream.next_of("admin").await;
    assert_eq!(first.data["message"], "server `one` added");
    assert!(first.data["hash"].is_string(), "the record is whole");
    stream.next_of("change").await;
    drop(stream);
    add_server(&api, "two").await;
    add_server(&api, "three").await;
    // From the beginning, from a record, and on to what comes.
    for (last, expected) in
        [(&health.id, vec!["one", "two", "three"]), (&first.id, vec!["two", "three"])]
    {
        let mut stream = open(&api, EVENTS, last.as_deref()).await;
        for name in expected {
            let record = stream.next_of("admin").await;
            assert_eq!(record.data["message"], format!("server `{name}` added"));
        }
    }
}

#[tokio::test]
async fn readers_choose_what_they_get() {
    let api = TestApi::new();
    let mut admin = open(&api, &format!("{EVENTS}?kind=admin,auth"), None).await;
    let mut changes = open(&api, &format!("{EVENTS}?kind=change"), None).await;
    let of_two = format!("{EVENTS}?server=two&kind=admin");
    let mut resumed = open(&api, &of_two, Some("log-0")).await;
    let mut of_two = open(&api, &of_two, None).await;
    add_server(&api, "one").await;
    assert_eq!(admin.next().await.unwrap().kind, "admin");
    let change = changes.next().await.unwrap();
    assert_eq!((change.kind.as_str(), change.id), ("change", None));
    add_server(&api, "two").await;
    for stream in [&mut of_two, &mut resumed] {
        assert_eq!(stream.next().await.unwrap().data["message"], "server `two` added");
    }
}

#[tokio::test]
async fn wrong_questions_are_refused() {
    let api = TestApi::new();
    for (path, last, status) in [
        (format!("{EVENTS}?kind=decisions"), None, 400),
        (format!("{EVENTS}?since=1h"), None, 400),
        (EVENTS.to_owned(), Some("17"), 400),
        (EVENTS.to_owned(), Some("log-ff"), 422),
    ] {
        api.send(ask(&path, last, 1)).await.expect(status);
    }
}

#[tokio::test]
async fn a_thousand_readers_are_served_and_no_more() {
    let api = TestApi::new();
    let mut streams = Vec::new();
    for number in 0..1_000_u32 {
        let network = u8::try_from(number / 64).unwrap();
        let opened = api.open(ask(&format!("{EVENTS}?kind=admin"), None, network)).await;
        streams.push(Stream::of(opened));
    }
    for network in [0, 200] {
        let refused = api.send(ask(EVENTS, None, network)).await;
        assert_eq!(refused.expect(429)["type"], "urn:sluicegate:problem:readers");
        assert_eq!(refused.header("retry-after"), "5");
    }
    add_server(&api, "one").await;
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().data["message"], "server `one` added");
    }
    // An address has no more than its share, also when there is room.
    streams.truncate(64);
    api.send(ask(EVENTS, None, 0)).await.expect(429);
    Stream::of(api.open(ask(EVENTS, None, 200)).await);
}

/// Time stands still here until everybody waits, and then passes at once.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_has_a_heartbeat() {
    let api = TestApi::new();
    let mut stream = open(&api, &format!("{EVENTS}?kind=drift"), None).await;
    for _ in 0..3 {
        let begun = tokio::time::Instant::now();
        assert_eq!(stream.next().await.unwrap().kind, "");
        assert_eq!(begun.elapsed().as_secs(), 15);
    }
}

#[tokio::test]
async fn a_stream_over_a_socket_ends_with_the_gateway() {
    let api = TestApi::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    // The store is shared, so that the listener tells what is changed in process.
    let serving = tokio::spawn(api.api().serve(listener, async {
        let _ = ended.await;
    }));
    let mut client = TcpStream::connect(address).await.unwrap();
    let asked = format!(
        "GET {EVENTS} HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n"
    );
    client.write_all(asked.as_bytes()).await.unwrap();
    let mut text = read_until(&mut client, "event: problems").await;
    add_server(&api, "one").await;
    text.push_str(&read_until(&mut client, "server `one` added").await);
    end.send(()).unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(String::from_utf8(rest).unwrap().contains("event: end"));
    serving.await.unwrap();
}

async fn read_until(client: &mut TcpStream, part: &str) -> String {
    let mut text = String::new();
    while !text.contains(part) {
        let mut buffer = [0; 4_096];
        let count = client.read(&mut buffer).await.unwrap();
        assert!(count > 0, "it ended: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}
