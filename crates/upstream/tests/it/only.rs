//! The one child of one client, which the gateway asks for its tools as well.

use http::HeaderMap;
use sluice_upstream::{
    client::{Client, Declares},
    stdio::Instances,
};
use sluice_wire::json::Bounds;

use crate::client::{Server, Stream, call, until};

/// The gateway's own client, once it is introduced.
async fn gateway<'s>(server: &'s Server, headers: &'s HeaderMap) -> Client<'s> {
    let bounds = Bounds::default();
    Client::introduce_legacy(&server.upstream, headers, bounds, Declares::Everything).await.unwrap()
}

fn has_received(server: &Server, what: &str) -> bool {
    server.recorded().iter().any(|line| line.contains(what))
}

#[tokio::test]
async fn a_question_goes_to_the_clients_call_not_to_the_gateways_list() {
    let server = Server::only("legacy");
    let session = server.begin().await;
    let headers = HeaderMap::new();
    let mut gateway = gateway(&server, &headers).await;
    let calling = async {
        let headers = [("mcp-session-id", session.as_str())];
        let answer = server.send("POST", &headers, &call("1", "asklist")).await.unwrap();
        let mut stream = Stream::new(answer.into_body());
        let asked = stream.next().await.unwrap();
        assert!(asked.contains("sampling/createMessage"), "{asked}");
        let reply = r#"{"jsonrpc":"2.0","id":"ask-1","result":{}}"#;
        assert_eq!(server.post(&session, reply).await.unwrap().status, 202);
        assert!(stream.next().await.unwrap().contains("answered"));
    };
    let listing = async {
        until("the call is there", || has_received(&server, "asklist")).await;
        gateway.request("tools/list", "", None).await.unwrap()
    };
    let ((), tools) = tokio::join!(calling, listing);
    assert!(tools.text().contains("echo") && !tools.text().contains("sampling"), "{tools:?}");
}

#[tokio::test]
async fn a_client_that_cancels_does_not_cancel_the_gateways_request() {
    let server = Server::only("legacy");
    let session = server.begin().await;
    let headers = HeaderMap::new();
    let mut gateway = gateway(&server, &headers).await;
    let holding = gateway.request("tools/call", r#""name":"hold""#, None);
    let cancelling = async {
        until("the gateway's request is there", || has_received(&server, "hold")).await;
        // The gateway has chosen the same id by chance.
        for id in 1..5 {
            let cancel = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            );
            assert_eq!(server.post(&session, &cancel).await.unwrap().status, 202);
        }
        server.call(&session, "9", "release").await.unwrap();
    };
    let (held, ()) = tokio::join!(holding, cancelling);
    assert!(held.unwrap().text().contains("first"));
}

#[tokio::test]
async fn a_question_while_no_call_runs_goes_to_the_clients_stream() {
    let server = Server::only("legacy");
    let session = server.begin().await;
    server.call(&session, "1", "asklater").await.unwrap();
    let mut stream = server.listen(&session).await;
    assert!(stream.next().await.unwrap().contains("sampling/createMessage"));
    // Also while the gateway, which cannot be asked, has a request under way.
    let reply = r#"{"jsonrpc":"2.0","id":"ask-1","result":{}}"#;
    server.post(&session, reply).await.unwrap();
    let headers = HeaderMap::new();
    let mut gateway = gateway(&server, &headers).await;
    gateway.request("tools/call", r#""name":"asklater""#, None).await.unwrap();
    assert!(stream.next().await.unwrap().contains("sampling/createMessage"));
}

#[tokio::test]
async fn a_question_is_refused_in_time_if_its_client_opens_no_stream() {
    let server = Server::only("legacy");
    let session = server.begin().await;
    server.call(&session, "1", "asklater").await.unwrap();
    until("it is refused", || has_received(&server, r#""id":"ask-1","error""#)).await;
}

#[tokio::test]
async fn the_gateway_is_never_asked_by_its_own_child() {
    for server in [Server::only("legacy"), Server::new("legacy", Instances::Session)] {
        let headers = HeaderMap::new();
        let mut gateway = gateway(&server, &headers).await;
        let answer = gateway.request("tools/call", r#""name":"ask""#, None).await.unwrap();
        assert!(answer.text().contains("refused"), "{answer:?}");
    }
}
