//! Running the binary in a folder of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering},
};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_sluice");

/// A folder that goes away with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // A test that was killed may have left one, under a process id used again.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// A folder with one file in it.
    pub(crate) fn with(name: &str, text: &str) -> Folder {
        let folder = Folder::new();
        folder.write(name, text);
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    /// Runs `sluice` here, without colours.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(BINARY).args(arguments).output().unwrap())
    }

    /// A command to be run here, without colours, and without settings of ours
    /// that happen to be around.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0).env("NO_COLOR", "1");
        for setting in ["DATA", "URL", "TOKEN", "ADMIN_TOKEN", "GRANT_TOKEN"] {
            command.env_remove(format!("SLUICE_{setting}"));
        }
        command
    }

    /// Runs a shell command here, with `sluice` on the path.
    pub(crate) fn shell(&self, line: &str) -> Ran {
        let folder = PathBuf::from(BINARY).parent().unwrap().display().to_string();
        let path = format!("{folder}:/usr/local/bin:/usr/bin:/bin");
        Ran::from(self.command("sh").args(["-c", line]).env("PATH", path).output().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}
