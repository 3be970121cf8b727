//! A gateway that runs: the real binary on free ports, with its data in a
//! folder of the test.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::sluice::{BINARY, Folder, Ran};

/// A running `sluice up`, ended with the test.
pub(crate) struct Up {
    folder: PathBuf,
    child: Child,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Folder {
    /// Starts a gateway here, with its data in `data`, and waits until it listens.
    pub(crate) fn up(&self, arguments: &[&str]) -> Up {
        self.up_with(&[], arguments)
    }

    /// The same with variables in its environment.
    pub(crate) fn up_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Up {
        let child = Command::new(BINARY)
            .args(["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(self.path())
            .env("NO_COLOR", "1")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut up = Up {
            folder: self.path().to_owned(),
            child,
            listen: ([0; 4], 0).into(),
            admin: ([0; 4], 0).into(),
        };
        up.wait_until_up();
        up
    }
}

impl Up {
    /// Reads what is printed until it says where it listens; the rest is read by
    /// a thread, so that the gateway can go on printing.
    fn wait_until_up(&mut self) {
        let mut lines = BufReader::new(self.child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        for line in lines.by_ref() {
            let line = line.unwrap();
            let is_last = line.trim_start().starts_with("servers");
            said.push(line);
            if is_last {
                break;
            }
        }
        let log = self.folder.join("up.log");
        std::thread::spawn(move || {
            let mut log = fs::File::create(log).unwrap();
            for line in lines.map_while(Result::ok) {
                let _ = writeln!(log, "{line}");
            }
        });
        let text = fs::read_to_string(self.folder.join("data/run.json"))
            .unwrap_or_else(|error| panic!("{error}; it said: {said:#?}"));
        let run: serde_json::Value = serde_json::from_str(&text).unwrap();
        let address = |name: &str| run[name].as_str().unwrap().parse().unwrap();
        (self.listen, self.admin) = (address("listen"), address("admin"));
    }

    /// Runs a command on this gateway.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }

    /// A command on this gateway, ready to be started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(["--data", "data"])
            .args(arguments)
            .current_dir(&self.folder)
            .env("NO_COLOR", "1");
        command
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its metrics, with the head of the answer.
    pub(crate) fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        let ask =
            format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        stream.write_all(ask.as_bytes()).unwrap();
        std::io::read_to_string(stream).unwrap()
    }

    /// What it has logged since it was up.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("up.log")).unwrap_or_default()
    }

    /// Waits until something is so, for at most ten seconds.
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..1000 {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not within ten seconds: {what}; log:\n{}", self.log());
    }

    /// Ends it as an operator would; its exit code.
    pub(crate) fn end(mut self) -> i32 {
        self.signal("TERM");
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Ends it as nobody should.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
