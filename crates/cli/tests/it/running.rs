//! A gateway that runs for one test, and commands on it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
    thread::JoinHandle,
};

use crate::sluice::{BINARY, Folder, Ran};

/// `sluice up --demo` on ports of its own; it ends with the test.
pub(crate) struct Running {
    child: Child,
    /// Reads what it says, so that it can go on saying it.
    _listener: JoinHandle<()>,
    folder: Folder,
}

impl Running {
    pub(crate) fn demo() -> Running {
        let folder = Folder::new();
        let mut child = folder
            .command(BINARY)
            .args(["--data", "data", "up", "--demo"])
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = lines.by_ref().map(Result::unwrap).find(|line| line.contains("is up"));
        assert!(said.is_some(), "the gateway did not start");
        let listener = std::thread::spawn(move || lines.for_each(drop));
        Running { child, _listener: listener, folder }
    }

    /// Runs a command on it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.folder.command(BINARY);
        Ran::from(command.args(["--data", "data"]).args(arguments).output().unwrap())
    }

    /// Starts a command on it whose output is read as it comes.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.folder.command(BINARY);
        command.args(["--data", "data"]).args(arguments).stdout(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.folder.write(name, text);
    }

    /// Creates a grant on the demo server; its id and its token.
    pub(crate) fn grant(&self, label: &str, policy: &str) -> (String, String) {
        let created = self.run(&["grant", "create", "demo", label, "--policy", policy, "--json"]);
        let created = created.exits(0).json();
        let text = |key: &str| created[key].as_str().unwrap().to_owned();
        (text("id"), text("token"))
    }

    /// Lists notes as whoever holds the token.
    pub(crate) fn call(&self, token: &str) -> Ran {
        self.run(&["call", "demo", "list_notes", "--token", token])
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
