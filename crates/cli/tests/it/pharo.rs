//! The Pharo server: the real binary over standard input and output, and behind
//! the gateway, before a double of the image.

mod calls;
mod gateway;
mod lines;
mod live;

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};
use sluice_testkit::PharoImage;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::sluice::{BINARY, Folder};

/// Long enough for anything that happens at all.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

/// What modern requests carry.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// An image, and a folder for its screenshots.
struct Image {
    image: PharoImage,
    folder: Folder,
}

impl std::ops::Deref for Image {
    type Target = PharoImage;

    fn deref(&self) -> &PharoImage {
        &self.image
    }
}

impl Image {
    async fn start() -> Image {
        let folder = Folder::new();
        let image = PharoImage::start(folder.path()).await.unwrap();
        Image { image, folder }
    }

    fn port_flag(&self) -> String {
        format!("--port={}", self.port())
    }
}

/// `sluice pharo`, as a client starts it.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    next: u32,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        Server::start_with(&[], arguments)
    }

    fn start_with(variables: &[(&str, &str)], arguments: &[&str]) -> Server {
        let mut child = Command::new(BINARY)
            .arg("pharo")
            .args(arguments)
            .env_remove("PHARO_SIS_PORT")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Server { stdin: child.stdin.take(), child, lines, next: 0 }
    }

    /// Sends a line.
    async fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The next line as it is; `None` at the end.
    async fn hear(&mut self) -> Option<String> {
        tokio::time::timeout(STEP_TIMEOUT, self.lines.next_line()).await.expect("a line").unwrap()
    }

    /// The next message.
    async fn next(&mut self) -> Value {
        serde_json::from_str(&self.hear().await.expect("a message")).unwrap()
    }

    /// Asks something; the id of the request.
    async fn ask(&mut self, method: &str, params: Value) -> u32 {
        self.next += 1;
        let id = self.next;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(&request.to_string()).await;
        id
    }

    async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.say(&message.to_string()).await;
    }

    /// Asks something and waits for its answer, which must come next.
    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool; its result.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.request("tools/call", params).await["result"].take()
    }

    async fn eval(&mut self, code: &str) -> Value {
        self.call("eval", json!({"code": code})).await
    }

    /// Closes its input; how it ends.
    async fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        tokio::time::timeout(STEP_TIMEOUT, self.child.wait())
            .await
            .expect("its end")
            .unwrap()
            .code()
    }
}

/// Waits until something is so.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..4000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within twenty seconds: {what}");
}
