//! Clients: some call tools all the time, others are silent, slow or gone.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sluice_testkit::RawClient;
use tokio::task::JoinHandle;

use super::TOKEN;

const CALLERS: usize = 6;
/// The pause of a caller after a call, and before it connects again.
const PAUSE: Duration = Duration::from_millis(5);

/// The address of the gateway, which changes when it is restarted.
pub(super) type Address = Arc<Mutex<SocketAddr>>;

/// Clients that call one tool after another.
pub(super) struct Callers {
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<BTreeSet<String>>>,
}

impl Callers {
    pub(super) fn start(address: &Address, round: usize) -> Callers {
        let is_over = Arc::new(AtomicBool::new(false));
        let tasks = (0..CALLERS)
            .map(|caller| {
                let name = format!("{round}x{caller}");
                tokio::spawn(call_repeatedly(Arc::clone(address), name, Arc::clone(&is_over)))
            })
            .collect();
        Callers { is_over, tasks }
    }

    /// Ends them; returns the tools whose results have arrived.
    pub(super) async fn finish(self) -> BTreeSet<String> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut answered = BTreeSet::new();
        for task in self.tasks {
            answered.extend(task.await.unwrap());
        }
        answered
    }
}

async fn call_repeatedly(
    address: Address,
    name: String,
    is_over: Arc<AtomicBool>,
) -> BTreeSet<String> {
    let mut answered = BTreeSet::new();
    let mut client = None;
    for number in 0_usize.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let kind = match number % 8 {
            0 | 4 => "limited",
            7 => "held",
            _ => "free",
        };
        let tool = format!("{kind}_{name}x{number}");
        let to = *address.lock().unwrap();
        if client.is_none() {
            client = RawClient::connect(to).await.ok();
        }
        let Some(connected) = &mut client else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        match call(connected, to, &tool).await {
            Some(true) => drop(answered.insert(tool)),
            Some(false) => {}
            None => client = None,
        }
        tokio::time::sleep(PAUSE).await;
    }
    answered
}

/// Calls a tool once. Whether its result has arrived; `None` if the connection ended.
pub(super) async fn call(client: &mut RawClient, address: SocketAddr, tool: &str) -> Option<bool> {
    client.send(&request(address, tool)).await.ok()?;
    let answer = client.answer().await.ok()??;
    let text = answer.text();
    let is_answered = answer.is_whole && text.contains("called ");
    assert!(!is_answered || text.contains(&format!("called {tool}")), "{tool} got {text}");
    Some(is_answered)
}

fn request(address: SocketAddr, tool: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"{tool}","method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
    );
    let length = body.len();
    let head = head(address, length);
    format!("{head}{body}").into_bytes()
}

fn head(address: SocketAddr, length: usize) -> String {
    format!(
        "POST /mcp/s HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {length}\r\n\r\n"
    )
}

/// Clients that call a tool and disconnect at once.
pub(super) async fn call_and_leave(address: SocketAddr, round: usize) {
    for number in 0..100 {
        let Ok(mut client) = RawClient::connect(address).await else { continue };
        let _ = client.send(&request(address, &format!("free_gone{round}x{number}"))).await;
    }
}

/// Connections that send nothing, or only a part of a request.
pub(super) async fn connect_and_wait(address: SocketAddr) -> Vec<RawClient> {
    let head = head(address, 1 << 20);
    let beginnings = ["", "PRI * HTTP/2.0\r\n", "POST /mcp/s HTTP/1.1\r\nhost", &head];
    let mut clients = Vec::new();
    for number in 0..200 {
        let Ok(mut client) = RawClient::connect(address).await else { continue };
        let _ = client.send(beginnings[number % beginnings.len()].as_bytes()).await;
        clients.push(client);
    }
    clients
}

/// Clients that call a tool and do not read the answer.
pub(super) async fn call_and_not_read(address: SocketAddr, round: usize) -> Vec<RawClient> {
    let mut clients = Vec::new();
    for number in 0..20 {
        let Ok(mut client) = RawClient::connect(address).await else { continue };
        let _ = client.send(&request(address, &format!("free_unread{round}x{number}"))).await;
        clients.push(client);
    }
    clients
}

/// Whether the gateway says that it is alive.
pub(super) async fn is_healthy(address: SocketAddr) -> bool {
    let Ok(mut client) = RawClient::connect(address).await else { return false };
    let ask = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let sent = client.send(ask.as_bytes()).await;
    sent.is_ok()
        && client.answer().await.is_ok_and(|answer| answer.is_some_and(|it| it.status == 200))
}
