//! A client that has started `sluice wrap`.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Stdio},
    sync::{
        LazyLock,
        mpsc::{self, Receiver},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::sluice::{BINARY, Folder};

/// What requests of the modern era carry.
pub(crate) static MODERN: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    })
});

/// Far more than anything here takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    pub(crate) process: Child,
    input: Option<ChildStdin>,
    said: Receiver<String>,
    next: u64,
}

impl Client {
    /// Starts `sluice wrap` with `policy.json`, and its data in `data`.
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Client {
        Client::start_with(folder, &[], arguments)
    }

    /// The same with variables in the environment.
    pub(crate) fn start_with(
        folder: &Folder,
        variables: &[(&str, &str)],
        arguments: &[&str],
    ) -> Client {
        let mut process = folder
            .command(BINARY)
            .args(["--data", "data", "wrap", "--policy", "policy.json"])
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let input = process.stdin.take();
        Client { process, input, said, next: 0 }
    }

    pub(crate) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// The next message.
    #[track_caller]
    pub(crate) fn read(&self) -> Value {
        let line = self.said.recv_timeout(ANSWER_TIMEOUT).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Makes a request; its id.
    pub(crate) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        let message = json!({"jsonrpc":"2.0","id":id,"method":method,"params":params});
        self.write(&message.to_string());
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        let message = json!({"jsonrpc":"2.0","method":method,"params":params});
        self.write(&message.to_string());
    }

    /// Makes a request whose answer comes next.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let answer = self.read();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Begins a session of the legacy era.
    #[track_caller]
    pub(crate) fn hello(&mut self) -> Value {
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"sampling": {}},
            "clientInfo": {"name": "t", "version": "1"},
        });
        let answer = self.ask("initialize", &hello);
        self.notify("notifications/initialized", &json!({}));
        answer
    }

    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": {}}))
    }

    /// Says no more.
    pub(crate) fn close(&mut self) {
        drop(self.input.take());
    }

    /// Says no more; the exit code.
    pub(crate) fn end(mut self) -> i32 {
        drop(self.input.take());
        self.code()
    }

    /// Waits for the end; the exit code.
    pub(crate) fn code(&mut self) -> i32 {
        self.process.wait().unwrap().code().unwrap_or(-1)
    }

    /// What was written for people, once it has ended.
    pub(crate) fn errors(&mut self) -> String {
        let errors = self.process.stderr.take().unwrap();
        std::io::read_to_string(errors).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
