//! `sluice stack` as a newcomer runs it: a home folder with clients' files in it.

mod adopt;
mod elsewhere;
mod hook;
mod pages;
mod secrets;

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command};

use crate::sluice::{BINARY, Folder, Ran};

/// A small MCP server whose tools are its arguments.
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stack/server.sh");

/// A home folder, with the server on the path as `notes-server`.
struct Home(Folder);

impl Home {
    fn new() -> Home {
        let home = Home(Folder::new());
        fs::create_dir_all(home.path("bin")).unwrap();
        fs::create_dir_all(home.path("code")).unwrap();
        symlink(SERVER, home.path("bin/notes-server")).unwrap();
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// A command of this user's, in the folder of their work.
    fn command(&self, program: &str) -> Command {
        let mut command = self.0.command(program);
        let bin = self.path("bin").display().to_string();
        command.current_dir(self.path("code")).env("HOME", self.0.path());
        command.env("PATH", format!("{bin}:/usr/local/bin:/usr/bin:/bin"));
        for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"] {
            command.env_remove(name);
        }
        command
    }

    fn stack(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(BINARY).arg("stack").args(arguments).output().unwrap())
    }

    /// A text with what differs from run to run taken out.
    fn steady(&self, text: &str) -> String {
        // Arguments are filled up to the width, which depends on paths.
        let joined = text.replace("\n+     ", " ").replace("\n-     ", " ");
        joined.replace(&self.0.path().display().to_string(), "/home/me").replace(BINARY, "sluice")
    }
}

/// A home with servers of every kind, in several clients.
fn furnished() -> Home {
    let home = Home::new();
    let notes =
        r#"{ "command": "notes-server", "args": ["list_notes", "add_note", "delete_note"] }"#;
    home.write(".cursor/mcp.json", &format!("{{\"mcpServers\": {{\"notes\": {notes}}}}}"));
    home.write(
        ".config/Code/User/mcp.json",
        &format!("{{\n  // mine\n  \"servers\": {{\"notes\": {notes}}},\n}}\n"),
    );
    home.write(
        ".codex/config.toml",
        "[mcp_servers.shell]\ncommand = \"notes-server\"\nargs = [\"run_command\", \"read_file\"] # mine\n",
    );
    home.write(
        ".claude.json",
        r#"{"mcpServers": {
  "clock": {"command": "notes-server", "args": ["get_time"]},
  "bank": {"command": "notes-server", "args": ["get_balance", "transfer_funds", "--api-key", "hunter22"]},
  "remote": {"type": "http", "url": "http://127.0.0.1:9/mcp?key=hunter22"}
}}"#,
    );
    home
}
