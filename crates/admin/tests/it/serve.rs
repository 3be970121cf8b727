//! The plane on a socket of its own: answering, and ending in good order.

use sluice_testkit::RawClient;
use tokio::{net::TcpListener, sync::oneshot};

use crate::plane::{HOST, Plane};

#[tokio::test]
async fn it_answers_until_it_is_ended() {
    let plane = Plane::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let serving = tokio::spawn(plane.api().serve(listener, async {
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
    let messages = plane.messages().await;
    assert!(messages[0].ends_with("(from 127.0.0.1)"), "{messages:?}");
}

/// Time stands still here until everybody waits, and then passes at once.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_say_what_it_wants_is_let_go() {
    let plane = Plane::new();
    for said in ["", "GET /healthz HTTP/1.1\r\nhost: 127"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(plane.api().serve(listener, std::future::pending()));
        let mut client = RawClient::connect(address).await.unwrap();
        client.send(said.as_bytes()).await.unwrap();
        assert_eq!(client.answer().await.unwrap(), None, "{said}");
        serving.abort();
    }
}
