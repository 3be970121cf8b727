//! The server behind the gateway, which misbehaves on request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sluice_testkit::{End, Recorded, Reply, Upstream};

/// How the server answers calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Well,
    Slowly,
    /// Later than the gateway waits.
    Never,
    NotJson,
    WrongId,
    Status500,
    /// The connection breaks in the middle of the answer.
    BrokenOff,
    /// An answer of 2 MiB.
    AtLength,
    /// An event stream with a request that the policy forbids, before the answer.
    WithForbiddenRequest,
}

pub(super) const MISBEHAVIOURS: [Behaviour; 8] = [
    Behaviour::Slowly,
    Behaviour::Never,
    Behaviour::NotJson,
    Behaviour::WrongId,
    Behaviour::Status500,
    Behaviour::BrokenOff,
    Behaviour::AtLength,
    Behaviour::WithForbiddenRequest,
];

/// Records what reaches it.
pub(super) struct ChaosServer {
    upstream: Upstream,
    /// The index of a misbehaviour; beyond them it behaves well.
    behaviour: Arc<AtomicUsize>,
}

impl ChaosServer {
    pub(super) async fn start() -> ChaosServer {
        let behaviour = Arc::new(AtomicUsize::new(usize::MAX));
        let current = Arc::clone(&behaviour);
        let others = sluice_testkit::mcp_server("[]");
        let upstream = Upstream::start(move |request| match tool_of(&request.text()) {
            Some(tool) => {
                let behaviour = MISBEHAVIOURS.get(current.load(Ordering::Relaxed));
                answer(request, &tool, *behaviour.unwrap_or(&Behaviour::Well))
            }
            None => others(request),
        });
        ChaosServer { upstream: upstream.await.unwrap(), behaviour }
    }

    pub(super) fn url(&self) -> String {
        self.upstream.url()
    }

    pub(super) fn behave(&self, behaviour: Behaviour) {
        let index = MISBEHAVIOURS.iter().position(|one| *one == behaviour);
        self.behaviour.store(index.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// The tools that were called since this was last asked.
    pub(super) fn take_calls(&self) -> Vec<String> {
        self.upstream.take().iter().filter_map(|request| tool_of(&request.text())).collect()
    }
}

/// The tool that a message calls.
fn tool_of(body: &str) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(body).ok()?;
    let name = (message["method"] == "tools/call").then(|| message["params"]["name"].as_str());
    name.flatten().map(str::to_owned)
}

fn answer(request: &Recorded, tool: &str, behaviour: Behaviour) -> Reply {
    let result = format!(r#"{{"content":[{{"type":"text","text":"called {tool}"}}]}}"#);
    let message = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    let well = message(&request.rpc_id());
    let half = well.get(..well.len() / 2).unwrap_or_default().to_owned();
    let after =
        |pause, body: String| Reply { pieces: vec![(pause, body.into())], ..Reply::json("") };
    match behaviour {
        Behaviour::Well => Reply::json(well),
        Behaviour::Slowly => after(Duration::from_millis(300), well),
        Behaviour::Never => Reply::json("").ending(End::Never),
        Behaviour::NotJson => Reply::json("<html>busy</html>"),
        Behaviour::WrongId => Reply::json(message("\"another\"")),
        Behaviour::Status500 => Reply::new(500, "text/plain", "out of order"),
        Behaviour::BrokenOff => Reply::json(half).ending(End::Broken),
        Behaviour::AtLength => {
            let padding = "x".repeat(2 << 20);
            let id = request.rpc_id();
            Reply::json(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"called {tool} {padding}"}}]}}}}"#
            ))
        }
        Behaviour::WithForbiddenRequest => {
            let forbidden = r#"{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#;
            Reply::events(format!("data: {forbidden}\n\ndata: {well}\n\n"))
        }
    }
}
