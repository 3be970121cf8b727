//! The locations of the clients' files on each operating system.
//!
//! The table is data; the [`Folders`] of a machine select its rows, so that all of it
//! can be tested on any system.

use std::path::{Path, PathBuf};

use crate::{client::Client, entry::Scope};

/// An operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Os {
    Linux,
    MacOs,
    Windows,
}

/// The folders of a machine and its user in which files are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    pub os: Os,
    pub home: PathBuf,
    /// The folder for programs' settings: `~/.config`, `~/Library/Application Support` or
    /// `%APPDATA%`.
    pub config: PathBuf,
    /// Claude Code's settings folder, from `CLAUDE_CONFIG_DIR`.
    pub claude: Option<PathBuf>,
    /// Codex's settings folder, from `CODEX_HOME`.
    pub codex: Option<PathBuf>,
    /// The current folder.
    pub folder: PathBuf,
}

/// A file that may exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub client: Client,
    pub path: PathBuf,
    pub scope: Scope,
    pub(crate) form: FileFormat,
}

/// The syntax of a file, and the keys of its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileFormat {
    pub(crate) syntax: Syntax,
    /// The key paths of objects with servers; `*` stands for any key.
    pub(crate) roots: &'static [&'static [&'static str]],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON, with the comments and trailing commas that some clients allow.
    Json,
    Toml,
}

/// The base folder of a path in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Home,
    /// `~/.config` on every system but Windows.
    DotConfig,
    Config,
    /// The folder for programs' settings, on Windows only.
    AppData,
    Claude,
    Codex,
    /// The current folder, and its parents in the same repository.
    Work,
}

struct Row {
    client: Client,
    base: Base,
    path: &'static str,
    form: FileFormat,
}

const MCP_SERVERS: FileFormat = FileFormat { syntax: Syntax::Json, roots: &[&["mcpServers"]] };
const CLAUDE: FileFormat = FileFormat {
    syntax: Syntax::Json,
    roots: &[&["mcpServers"], &["projects", "*", "mcpServers"]],
};
const SERVERS: FileFormat = FileFormat { syntax: Syntax::Json, roots: &[&["servers"]] };
const SETTINGS: FileFormat =
    FileFormat { syntax: Syntax::Json, roots: &[&["mcp", "servers"], &["mcp.servers"]] };
const CONTEXT: FileFormat = FileFormat { syntax: Syntax::Json, roots: &[&["context_servers"]] };
const TABLES: FileFormat = FileFormat { syntax: Syntax::Toml, roots: &[&["mcp_servers"]] };

const fn row(client: Client, base: Base, path: &'static str, form: FileFormat) -> Row {
    Row { client, base, path, form }
}

const TABLE: [Row; 18] = [
    row(Client::ClaudeDesktop, Base::Config, "Claude/claude_desktop_config.json", MCP_SERVERS),
    row(Client::ClaudeCode, Base::Claude, ".claude.json", CLAUDE),
    row(Client::Cursor, Base::Home, ".cursor/mcp.json", MCP_SERVERS),
    row(Client::Cursor, Base::Work, ".cursor/mcp.json", MCP_SERVERS),
    row(Client::VsCode, Base::Config, "Code/User/mcp.json", SERVERS),
    row(Client::VsCode, Base::Config, "Code/User/settings.json", SETTINGS),
    row(Client::VsCode, Base::Config, "Code - Insiders/User/mcp.json", SERVERS),
    row(Client::VsCode, Base::Config, "Code - Insiders/User/settings.json", SETTINGS),
    row(Client::VsCode, Base::Work, ".vscode/mcp.json", SERVERS),
    row(Client::Windsurf, Base::Home, ".codeium/windsurf/mcp_config.json", MCP_SERVERS),
    row(Client::Codex, Base::Codex, "config.toml", TABLES),
    row(Client::Codex, Base::Work, ".codex/config.toml", TABLES),
    row(Client::Gemini, Base::Home, ".gemini/settings.json", MCP_SERVERS),
    row(Client::Gemini, Base::Work, ".gemini/settings.json", MCP_SERVERS),
    row(Client::Zed, Base::DotConfig, "zed/settings.json", CONTEXT),
    row(Client::Zed, Base::AppData, "Zed/settings.json", CONTEXT),
    row(Client::Zed, Base::Work, ".zed/settings.json", CONTEXT),
    row(Client::Project, Base::Work, ".mcp.json", MCP_SERVERS),
];

/// The file that users of a client edit by hand, and its format: the user's own file, else a
/// project's. If its folder depends on the system, only the file name is given.
pub(crate) fn usual_file(client: Client) -> (String, FileFormat) {
    let rank = |base| match base {
        Base::Home | Base::Claude | Base::Codex | Base::DotConfig => 0,
        Base::Work => 1,
        Base::Config | Base::AppData => 2,
    };
    let rows = TABLE.iter().filter(|row| row.client == client);
    let Some(Row { base, path, form, .. }) = rows.min_by_key(|row| rank(row.base)) else {
        return (String::new(), MCP_SERVERS);
    };
    let file = match base {
        Base::Home | Base::Claude => format!("~/{path}"),
        Base::Codex => format!("~/.codex/{path}"),
        Base::DotConfig => format!("~/.config/{path}"),
        Base::Work => (*path).to_owned(),
        Base::Config | Base::AppData => path.rsplit('/').next().unwrap_or(path).to_owned(),
    };
    (file, *form)
}

/// The maximum number of parent folders to search, if no repository root comes first.
const HIGHEST: usize = 32;

impl Folders {
    /// The candidate files, in the order of the table.
    pub fn candidates(&self) -> Vec<Candidate> {
        let work = self.work();
        let mut found: Vec<Candidate> = Vec::new();
        for row in &TABLE {
            for (folder, scope) in self.bases(row.base, &work) {
                let path = folder.join(row.path);
                // If the current folder is the home folder, a file may match twice.
                if !found.iter().any(|other| other.path == path) {
                    found.push(Candidate { client: row.client, path, scope, form: row.form });
                }
            }
        }
        found
    }

    /// The `.mcp.json` of a folder that another file names.
    pub fn project(folder: &Path) -> Candidate {
        Candidate {
            client: Client::Project,
            path: folder.join(".mcp.json"),
            scope: Scope::Project(folder.to_owned()),
            form: MCP_SERVERS,
        }
    }

    fn bases(&self, base: Base, work: &[PathBuf]) -> Vec<(PathBuf, Scope)> {
        let user = |folder: &Path| vec![(folder.to_owned(), Scope::User)];
        match base {
            Base::Home => user(&self.home),
            Base::Claude => user(self.claude.as_deref().unwrap_or(&self.home)),
            Base::Codex => match &self.codex {
                Some(folder) => user(folder),
                None => user(&self.home.join(".codex")),
            },
            Base::Config => user(&self.config),
            Base::AppData if self.os == Os::Windows => user(&self.config),
            Base::AppData => Vec::new(),
            Base::DotConfig if self.os == Os::Windows => Vec::new(),
            Base::DotConfig if self.os == Os::Linux => user(&self.config),
            Base::DotConfig => user(&self.home.join(".config")),
            Base::Work => {
                let scoped = |folder: &PathBuf| (folder.clone(), Scope::Project(folder.clone()));
                work.iter().map(scoped).collect()
            }
        }
    }

    /// The current folder and its parents up to the repository root; outside of a repository, only
    /// the folder itself.
    fn work(&self) -> Vec<PathBuf> {
        let above: Vec<_> = self.folder.ancestors().take(HIGHEST).map(Path::to_owned).collect();
        let root = above.iter().position(|folder| folder.join(".git").exists());
        above.into_iter().take(root.unwrap_or_default() + 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Folders, Os};

    fn places(os: Os, config: &str) -> Folders {
        Folders {
            os,
            home: "/h".into(),
            config: config.into(),
            claude: None,
            codex: None,
            folder: "/nowhere/code".into(),
        }
    }

    fn paths(places: &Folders) -> Vec<String> {
        places.candidates().into_iter().map(|one| one.path.display().to_string()).collect()
    }

    #[test]
    fn each_system_has_its_own_file_locations() {
        let linux = paths(&places(Os::Linux, "/h/.config"));
        for path in [
            "/h/.config/Claude/claude_desktop_config.json",
            "/h/.claude.json",
            "/h/.cursor/mcp.json",
            "/h/.config/Code/User/mcp.json",
            "/h/.config/Code/User/settings.json",
            "/h/.codeium/windsurf/mcp_config.json",
            "/h/.codex/config.toml",
            "/h/.gemini/settings.json",
            "/h/.config/zed/settings.json",
            "/nowhere/code/.mcp.json",
            "/nowhere/code/.vscode/mcp.json",
        ] {
            assert!(linux.contains(&path.into()), "{path}: {linux:#?}");
        }
        let mac = paths(&places(Os::MacOs, "/h/Library/Application Support"));
        for path in [
            "/h/Library/Application Support/Claude/claude_desktop_config.json",
            "/h/Library/Application Support/Code/User/mcp.json",
            "/h/.config/zed/settings.json",
        ] {
            assert!(mac.contains(&path.into()), "{path}: {mac:#?}");
        }
        let windows = paths(&places(Os::Windows, "/h/AppData/Roaming"));
        for path in [
            "/h/AppData/Roaming/Claude/claude_desktop_config.json",
            "/h/AppData/Roaming/Code/User/mcp.json",
            "/h/AppData/Roaming/Zed/settings.json",
            "/h/.codex/config.toml",
        ] {
            assert!(windows.contains(&path.into()), "{path}: {windows:#?}");
        }
        assert!(!windows.iter().any(|path| path.contains(".config/")), "{windows:#?}");
    }

    #[test]
    fn folders_from_variables_replace_the_defaults() {
        let claude = Some(PathBuf::from("/c"));
        let moved = Folders { claude, codex: Some("/x".into()), ..places(Os::Linux, "/h/.config") };
        let paths = paths(&moved);
        assert!(
            paths.contains(&"/c/.claude.json".into()) && paths.contains(&"/x/config.toml".into())
        );
    }

    #[test]
    fn a_file_in_two_rows_is_read_once() {
        let at_home = Folders { folder: "/h".into(), ..places(Os::Linux, "/h/.config") };
        let paths = paths(&at_home);
        assert_eq!(paths.iter().filter(|path| *path == "/h/.cursor/mcp.json").count(), 1);
    }
}
