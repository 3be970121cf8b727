//! The configuration with which each client reaches a server over HTTP: a command to
//! run, or an entry to paste into its file.
//!
//! Every client has its own file format for the same three values: a name, a URL and
//! a token. The file and the key are in `locations`.

use serde_json::{Map, Value, json};

use crate::{
    client::Client,
    locations::{FileFormat, Syntax, usual_file},
};

/// The name, URL and token with which a client connects.
#[derive(Debug, Clone, Copy)]
pub struct Access<'a> {
    /// The server's name in the client.
    pub name: &'a str,
    pub url: &'a str,
    pub token: &'a str,
}

/// The setup of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetUp {
    pub client: Client,
    /// The file to edit; `None` if `text` is a command to run.
    pub file: Option<String>,
    pub text: String,
}

impl Access<'_> {
    /// The setup of each client, commands first.
    pub fn set_ups(&self) -> Vec<SetUp> {
        let mut all: Vec<_> = Client::ALL.into_iter().map(|client| self.set_up(client)).collect();
        all.sort_by_key(|one| one.file.is_some());
        all
    }

    fn set_up(&self, client: Client) -> SetUp {
        let Access { name, url, .. } = self;
        let bearer = self.bearer();
        let headers = || json!({ "Authorization": bearer });
        let command = |text| SetUp { client, file: None, text };
        let file = |entry: Value| self.file(client, &entry);
        match client {
            Client::ClaudeCode => command(format!(
                "claude mcp add --transport http {name} {url} --header \"Authorization: {bearer}\""
            )),
            Client::Gemini => command(format!(
                "gemini mcp add --scope user --transport http --header \"Authorization: {bearer}\" {name} {url}"
            )),
            Client::ClaudeDesktop => {
                file(json!({ "command": "npx", "args": self.bridge(), "env": { "AUTH": bearer } }))
            }
            Client::Cursor | Client::Zed => file(json!({ "url": url, "headers": headers() })),
            Client::Windsurf => file(json!({ "serverUrl": url, "headers": headers() })),
            Client::Codex => file(json!({ "url": url, "http_headers": headers() })),
            Client::VsCode | Client::Project => {
                file(json!({ "type": "http", "url": url, "headers": headers() }))
            }
        }
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// The entry, in the syntax of the client's file and below its key.
    fn file(&self, client: Client, entry: &Value) -> SetUp {
        let (file, FileFormat { syntax, roots }) = usual_file(client);
        let root = roots.first().copied().unwrap_or_default();
        let text = match syntax {
            Syntax::Json => {
                let mut whole = json!({ self.name: entry });
                for key in root.iter().rev() {
                    whole = Value::Object(Map::from_iter([((*key).to_owned(), whole)]));
                }
                whole.to_string()
            }
            Syntax::Toml => self.table(root, entry),
        };
        SetUp { client, file: Some(file), text }
    }

    fn table(&self, root: &[&str], entry: &Value) -> String {
        let heading = format!("[{}.{}]", root.join("."), self.name);
        let pairs = entry.as_object().into_iter().flatten();
        let lines = pairs.map(|(key, value)| format!("{key} = {}", inline(value)));
        std::iter::once(heading).chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// An entry for Claude Desktop, whose file supports only commands: it starts a bridge to the
    /// URL. The token is in a variable, because some systems split arguments at blanks.
    fn bridge(&self) -> Value {
        let mut arguments = vec!["-y", "mcp-remote", self.url, "--transport", "http-only"];
        if self.url.starts_with("http://") {
            arguments.push("--allow-http");
        }
        arguments.extend(["--header", "Authorization:${AUTH}"]);
        json!(arguments)
    }
}

/// A string or a table of strings as inline TOML. Strings without control characters are written as
/// in JSON.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let pairs: Vec<_> =
                members.iter().map(|(key, value)| format!("{key} = {}", inline(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Client, SetUp};

    const ACCESS: Access<'static> =
        Access { name: "notes", url: "http://127.0.0.1:8787/mcp/notes", token: "sg_x" };

    #[test]
    fn every_client_setup_has_the_name_url_and_token() {
        let set_ups = ACCESS.set_ups();
        assert_eq!(set_ups.len(), Client::ALL.len());
        for SetUp { client, text, .. } in set_ups {
            for part in ["notes", "http://127.0.0.1:8787/mcp/notes", "Bearer sg_x"] {
                assert!(text.contains(part), "{client}: {text}");
            }
        }
    }

    #[test]
    fn a_client_entry_has_the_syntax_and_key_of_its_file() {
        for (client, file, start) in [
            (Client::ClaudeDesktop, "claude_desktop_config.json", r#"{"mcpServers":{"notes":{"#),
            (Client::Cursor, "~/.cursor/mcp.json", r#"{"mcpServers":{"notes":{"#),
            (Client::VsCode, ".vscode/mcp.json", r#"{"servers":{"notes":{"type":"http","#),
            (
                Client::Windsurf,
                "~/.codeium/windsurf/mcp_config.json",
                r#"{"mcpServers":{"notes":{"serverUrl":"#,
            ),
            (Client::Zed, "~/.config/zed/settings.json", r#"{"context_servers":{"notes":{"#),
            (Client::Project, ".mcp.json", r#"{"mcpServers":{"notes":{"type":"http","#),
        ] {
            let set_up = ACCESS.set_up(client);
            assert_eq!(set_up.file.as_deref(), Some(file));
            assert!(set_up.text.starts_with(start), "{}", set_up.text);
            assert!(serde_json::from_str::<serde_json::Value>(&set_up.text).is_ok());
        }
        let codex = ACCESS.set_up(Client::Codex);
        assert_eq!(codex.file.as_deref(), Some("~/.codex/config.toml"));
        assert_eq!(
            codex.text,
            "[mcp_servers.notes]\n\
             url = \"http://127.0.0.1:8787/mcp/notes\"\n\
             http_headers = { Authorization = \"Bearer sg_x\" }"
        );
        assert!(codex.text.parse::<toml_edit::Document<String>>().is_ok());
    }

    #[test]
    fn setups_with_commands_come_first() {
        let set_ups = ACCESS.set_ups();
        let commands: Vec<_> = set_ups.iter().take_while(|one| one.file.is_none()).collect();
        assert_eq!(
            commands.iter().map(|one| one.client.id()).collect::<Vec<_>>(),
            ["claude-code", "gemini"]
        );
        assert!(commands.iter().all(|one| one.text.contains(" mcp add ")));
        assert!(set_ups.iter().skip(2).all(|one| one.file.is_some()));
    }

    #[test]
    fn only_a_url_without_tls_gets_the_flag_for_it() {
        let secure = Access { url: "https://gate.example/mcp", ..ACCESS };
        assert!(ACCESS.bridge().to_string().contains("--allow-http"));
        assert!(!secure.bridge().to_string().contains("--allow-http"));
    }
}
