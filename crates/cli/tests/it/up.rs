//! A gateway that runs: the real binary on free ports, with its data in a
//! folder of the test.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::sluice::{BINARY, Folder, Ran};

/// For tests that look into `/proc`, which only root may do otherwise.
pub(crate) const INSPECTED: (&str, &str) = ("SLUICE_CORE_DUMPS", "allow");

/// A running `sluice up`, ended with the test.
pub(crate) struct Up {
    folder: PathBuf,
    child: Child,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// What it printed first, up to its servers.
    pub(crate) banner: String,
}

impl Folder {
    /// Starts a gateway here, with its data in `data`, and waits until it listens.
    pub(crate) fn up(&self, arguments: &[&str]) -> Up {
        self.up_with(&[], arguments)
    }

    /// The same with variables in its environment.
    pub(crate) fn up_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Up {
        let mut command = Command::new(BINARY);
        command.envs(variables.iter().copied());
        self.start(command, "127.0.0.1:0", arguments)
    }

    /// The same with its agent listener at another address.
    pub(crate) fn up_at(&self, listen: &str, arguments: &[&str]) -> Up {
        self.start(Command::new(BINARY), listen, arguments)
    }

    /// The same started by a shell, which runs this before.
    pub(crate) fn up_after(&self, before: &str, variables: &[(&str, &str)]) -> Up {
        let mut command = Command::new("sh");
        command.envs(variables.iter().copied());
        command.args(["-c", &format!(r#"{before}; exec "$0" "$@""#), BINARY]);
        self.start(command, "127.0.0.1:0", &[])
    }

    /// The same with at most this many files open.
    pub(crate) fn up_with_files(&self, files: usize, arguments: &[&str]) -> Up {
        let mut command = Command::new("sh");
        command.envs([INSPECTED]);
        command.args(["-c", &format!(r#"ulimit -n {files}; exec "$0" "$@""#), BINARY]);
        self.start(command, "127.0.0.1:0", arguments)
    }

    fn start(&self, mut command: Command, listen: &str, arguments: &[&str]) -> Up {
        let child = command
            .args(["--data", "data", "up", "--listen", listen, "--admin", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(self.path())
            .env("NO_COLOR", "1")
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
            banner: String::new(),
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
        self.banner = said.join("\n");
        fs::write(&log, format!("{}\n", self.banner)).unwrap();
        std::thread::spawn(move || {
            let mut log = fs::OpenOptions::new().append(true).open(log).unwrap();
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

    /// The admin token.
    pub(crate) fn admin_token(&self) -> String {
        let token = fs::read_to_string(self.folder.join("data/admin-token")).unwrap();
        token.trim_end().to_owned()
    }

    /// Its metrics, with the head of the answer.
    pub(crate) fn metrics(&self) -> String {
        self.ask_admin("/metrics", &format!("Authorization: Bearer {}\r\n", self.admin_token()))
    }

    /// What the admin listener answers, with these headers.
    pub(crate) fn ask_admin(&self, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        let host = format!("Host: {}\r\nConnection: close\r\n", self.admin);
        let ask = format!("GET {path} HTTP/1.1\r\n{host}{headers}\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        std::io::read_to_string(stream).unwrap()
    }

    /// What it has printed on standard error.
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

    /// Ends it by a signal that is a reason to write a core dump.
    pub(crate) fn abort(mut self) -> ExitStatus {
        self.signal("ABRT");
        self.child.wait().unwrap()
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
