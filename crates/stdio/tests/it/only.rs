//! The single child of a single client, whose tools the gateway lists as well.

use std::{sync::Arc, time::Duration};

use http::HeaderMap;
use sluice_bridge::{Bridge, Caller, Offer};
use sluice_http::SendError;
use sluice_stdio::Instances;
use sluice_upstream::{
    Upstream,
    client::{Client, Declares},
};
use sluice_wire::{json::Bounds, mcp::Era};
use tokio::time::Instant;

use crate::client::{MODERN, Server, Stream, call, until};

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

#[tokio::test]
async fn the_era_of_a_child_that_starts_slowly_is_asked_for_again() {
    let server = Server::only("late");
    let Upstream::Only(child) = &server.upstream else { panic!("it is an only child") };
    // The first question is never answered, so only the clock moves on.
    tokio::time::pause();
    let since = Instant::now();
    assert_eq!(child.era().await, None);
    assert!(since.elapsed() >= Duration::from_mins(2), "after {:?}", since.elapsed());
    tokio::time::resume();
    assert_eq!(child.era().await, Some(Era::Legacy));
}

/// A reservation may be given back only if nothing was sent.
#[tokio::test]
async fn a_call_that_ends_a_child_before_its_introduction_was_sent() {
    let server = Server::only("modern");
    let headers = [("mcp-protocol-version", MODERN)];
    let error = server.send("POST", &headers, &call("1", "die")).await.unwrap_err();
    assert!(matches!(&error, SendError::Lost(why) if why.contains("about to die")), "{error:?}");
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}"#;
    let server = Server::only("fragile");
    let error = server.send("POST", &headers, discover).await.unwrap_err();
    assert!(matches!(error, SendError::NotStarted(_)), "{error:?}");
}

/// It hears only once who its client is.
#[tokio::test]
async fn a_bridge_introduces_the_client_to_the_child_not_itself() {
    let server = Server::only("legacy");
    let bridge = Bridge::new(server.upstream.clone(), Offer::Modern, Arc::default());
    let discover = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{"roots":{{}}}}}}}}}}"#
    );
    let request = http::Request::post("/")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", "server/discover")
        .body(discover.into())
        .unwrap();
    let caller = || Caller { key: "one".into(), bounds: Bounds::default(), rounds: None };
    let answer = bridge.send(Era::Modern, Box::new(request), caller).await.unwrap();
    assert_eq!(answer.status(), 200);
    let recorded = server.recorded();
    let hellos: Vec<_> = recorded.iter().filter(|line| line.contains("\"initialize\"")).collect();
    assert_eq!(hellos.len(), 1, "{hellos:?}");
    assert!(hellos[0].contains(r#""capabilities":{"roots":{}}"#), "{hellos:?}");
}
