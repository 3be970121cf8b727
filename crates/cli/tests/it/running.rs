//! A gateway that runs for one test, and commands on it.

use std::process::{Child, Stdio};

use crate::{
    sluice::{Folder, Ran},
    up::Up,
};

/// `sluice up --demo`; it ends with the test.
pub(crate) struct Running {
    up: Up,
    folder: Folder,
}

impl Running {
    pub(crate) fn demo() -> Running {
        let folder = Folder::new();
        Running { up: folder.up(&["--demo"]), folder }
    }

    /// Runs a command on it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.up.run(arguments)
    }

    /// Starts a command on it whose output is read as it comes.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.up.command(arguments).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Where agents reach a server of it.
    pub(crate) fn url(&self, server: &str) -> String {
        format!("http://{}/mcp/{server}", self.up.listen)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.folder.write(name, text);
    }

    /// Creates a grant on the demo server; its id and its token.
    pub(crate) fn grant(&self, label: &str, policy: &str) -> (String, String) {
        let create = ["grant", "create", "demo", label, "--policy", policy, "--allow-missing"];
        let created = self.run(&[create.as_slice(), &["--json"]].concat());
        let created = created.exits(0).json();
        let text = |key: &str| created[key].as_str().unwrap().to_owned();
        (text("id"), text("token"))
    }

    /// Lists notes with this token.
    pub(crate) fn call(&self, token: &str) -> Ran {
        self.run(&["call", "demo", "list_notes", "--token", token])
    }
}
