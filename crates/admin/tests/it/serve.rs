//! The API on a socket of its own: its answers, and its graceful shutdown.

use std::{net::SocketAddr, time::Duration};

use sluice_testkit::RawClient;
use tokio::{net::TcpListener, sync::oneshot};

use crate::fixture::{HOST, TOKEN, TestApi};

#[tokio::test]
async fn the_listener_answers_until_it_is_ended() {
    let api = TestApi::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let serving = tokio::spawn(api.api().serve(listener, async {
        let _ = ended.await;
    }));
    let mut client = RawClient::connect(address).await.unwrap();
    let request = format!("GET /api/v1/status HTTP/1.1\r\nhost: {HOST}\r\n\r\n");
    client.send(request.as_bytes()).await.unwrap();
    assert_eq!(client.answer().await.unwrap().unwrap().status, 401);
    end.send(()).unwrap();
    serving.await.unwrap();
    // The connection was kept open for more, and is closed all the same.
    assert_eq!(client.answer().await.unwrap(), None);
    let messages = api.messages().await;
    assert!(messages[0].ends_with("(from 127.0.0.1)"), "{messages:?}");
}

/// Time stands still here until everybody waits, and then passes at once.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_say_what_it_wants_is_let_go() {
    let api = TestApi::new();
    for said in ["", "GET /healthz HTTP/1.1\r\nhost: 127"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(api.api().serve(listener, std::future::pending()));
        let mut client = RawClient::connect(address).await.unwrap();
        client.send(said.as_bytes()).await.unwrap();
        assert_eq!(client.answer().await.unwrap(), None, "{said}");
        serving.abort();
    }
}

/// The api on a free port.
async fn serve(api: &TestApi) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(api.api().serve(listener, std::future::pending()));
    address
}

#[tokio::test]
async fn silent_clients_keep_nobody_out() {
    let api = TestApi::new();
    let address = serve(&api).await;
    let mut crowd = Vec::new();
    for number in 0..400 {
        let mut client = RawClient::connect(address).await.unwrap();
        let beginning: &[u8] = if number % 2 == 0 { b"" } else { b"GET /healthz HTTP/1.1\r\n" };
        // It may have been closed already, to make room.
        let _ = client.send(beginning).await;
        crowd.push(client);
    }
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {HOST}\r\n\r\n");
    let asking = async {
        let mut client = RawClient::connect(address).await.unwrap();
        client.send(request.as_bytes()).await.unwrap();
        client.answer().await.unwrap().unwrap().status
    };
    // The others would be let go after 15 s only.
    let asked = tokio::time::timeout(Duration::from_secs(10), asking).await;
    assert_eq!(asked.expect("an answer before the others are let go"), 200);
    assert_eq!(crowd[0].answer().await.unwrap(), None, "the oldest has made room");
}

/// Time stands still here until everybody waits, and then passes at once.
#[tokio::test(start_paused = true)]
async fn a_client_that_stops_in_the_middle_is_let_go() {
    let api = TestApi::new();
    let address = serve(&api).await;
    let head = format!("host: {HOST}\r\nauthorization: Bearer {TOKEN}\r\n");
    let mut client = RawClient::connect(address).await.unwrap();
    let request = format!(
        "POST /api/v1/servers HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: 99\r\n\r\n{{"
    );
    client.send(request.as_bytes()).await.unwrap();
    let answer = client.answer().await.unwrap().unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("did not arrive in time"), "{}", answer.text());
    // Another reads none of its answers.
    let mut client = RawClient::connect(address).await.unwrap();
    let requests = format!("GET /api/v1/openapi.json HTTP/1.1\r\n{head}\r\n").repeat(100);
    let sending = async { while client.send(requests.as_bytes()).await.is_ok() {} };
    let ended = tokio::time::timeout(Duration::from_hours(1), sending).await;
    assert!(ended.is_ok(), "its connection is closed");
}
