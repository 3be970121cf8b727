//! The supported MCP clients and their names.

use std::fmt;

/// An MCP client that stores its servers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    VsCode,
    Windsurf,
    Codex,
    Gemini,
    Zed,
    /// A `.mcp.json`, which several clients read.
    Project,
}

impl Client {
    pub const ALL: [Client; 9] = [
        Client::ClaudeDesktop,
        Client::ClaudeCode,
        Client::Cursor,
        Client::VsCode,
        Client::Windsurf,
        Client::Codex,
        Client::Gemini,
        Client::Zed,
        Client::Project,
    ];

    /// Its name in arguments and JSON.
    pub fn id(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "claude-desktop",
            Client::ClaudeCode => "claude-code",
            Client::Cursor => "cursor",
            Client::VsCode => "vscode",
            Client::Windsurf => "windsurf",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Zed => "zed",
            Client::Project => "mcp-json",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "Claude Desktop",
            Client::ClaudeCode => "Claude Code",
            Client::Cursor => "Cursor",
            Client::VsCode => "VS Code",
            Client::Windsurf => "Windsurf",
            Client::Codex => "Codex",
            Client::Gemini => "Gemini CLI",
            Client::Zed => "Zed",
            Client::Project => ".mcp.json",
        }
    }

    /// How to make it read its file again.
    pub fn restart(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "quit Claude Desktop and open it again",
            Client::ClaudeCode => "start Claude Code again, or use `/mcp` in it",
            Client::Cursor => "turn the server off and on in Cursor's settings, or restart Cursor",
            Client::VsCode => "run `MCP: List Servers` in VS Code and restart the server",
            Client::Windsurf => "press refresh in Windsurf's MCP panel",
            Client::Codex => "start Codex again",
            Client::Gemini => "start Gemini CLI again, or use `/mcp refresh` in it",
            Client::Zed => "Zed notices by itself",
            Client::Project => "start again the clients that read this `.mcp.json`",
        }
    }

    /// Finds a client by its [`Client::id`].
    pub fn from_id(id: &str) -> Option<Client> {
        Client::ALL.into_iter().find(|client| client.id() == id)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}
