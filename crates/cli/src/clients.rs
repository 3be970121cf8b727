//! What to paste into which MCP client, so that it calls through the gateway.
//!
//! Every client has its own place and spelling for the same three things: a name,
//! a URL and a token.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::output::{FAINT, STRONG};

/// Where a client is to call, as what, and with which token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    /// What the client calls it.
    pub(crate) name: &'a str,
    pub(crate) url: &'a str,
    pub(crate) token: &'a str,
}

/// What there is to do in one client.
struct SetUp {
    client: &'static str,
    /// A file to edit; without one it is a command to run.
    file: Option<&'static str>,
    text: String,
}

impl Access<'_> {
    /// What to do, client by client, for people to read.
    pub(crate) fn for_all_clients(&self) -> String {
        let mut text = format!("{STRONG}For an MCP client:{STRONG:#}\n");
        for SetUp { client, file, text: content } in self.set_ups() {
            let place = file.map_or_else(String::new, |file| format!(", in {file}"));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {FAINT}# {client}{place}{FAINT:#}");
            for line in content.lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
        text
    }

    fn set_ups(&self) -> [SetUp; 9] {
        let Access { name, url, token } = self;
        let bearer = format!("Authorization: Bearer {token}");
        let servers = |entry: Value| json!({ "mcpServers": { *name: entry } }).to_string();
        let command = |client, text| SetUp { client, file: None, text };
        let file = |client, file, text| SetUp { client, file: Some(file), text };
        let headers = || json!({ "Authorization": format!("Bearer {token}") });
        [
            command(
                "Claude Code",
                format!("claude mcp add --transport http {name} {url} --header \"{bearer}\""),
            ),
            command(
                "Gemini CLI",
                format!("gemini mcp add --scope user --transport http --header \"{bearer}\" {name} {url}"),
            ),
            file("Codex", "~/.codex/config.toml", self.codex()),
            file(
                "Claude Desktop",
                "claude_desktop_config.json",
                servers(json!({ "command": "npx", "args": self.bridged(), "env": { "AUTH": format!("Bearer {token}") } })),
            ),
            file(
                "Cursor",
                "~/.cursor/mcp.json",
                servers(json!({ "url": url, "headers": headers() })),
            ),
            file(
                "VS Code",
                ".vscode/mcp.json",
                json!({ "servers": { *name: { "type": "http", "url": url, "headers": headers() } } })
                    .to_string(),
            ),
            file(
                "Windsurf",
                "~/.codeium/windsurf/mcp_config.json",
                servers(json!({ "serverUrl": url, "headers": headers() })),
            ),
            file(
                "Zed",
                "~/.config/zed/settings.json",
                json!({ "context_servers": { *name: { "url": url, "headers": headers() } } })
                    .to_string(),
            ),
            file(
                "any other",
                "its JSON configuration",
                servers(json!({ "type": "http", "url": url, "headers": headers() })),
            ),
        ]
    }

    fn codex(&self) -> String {
        let Access { name, url, token } = self;
        format!(
            "[mcp_servers.{name}]\nurl = \"{url}\"\nhttp_headers = {{ Authorization = \"Bearer {token}\" }}"
        )
    }

    /// Claude Desktop's file knows only commands, so one is put in between. The
    /// token is in a variable, because some systems split arguments at blanks.
    fn bridged(&self) -> Value {
        let mut arguments = vec!["-y", "mcp-remote", self.url, "--transport", "http-only"];
        if self.url.starts_with("http://") {
            arguments.push("--allow-http");
        }
        arguments.extend(["--header", "Authorization:${AUTH}"]);
        json!(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, SetUp};

    const ACCESS: Access<'static> =
        Access { name: "notes", url: "http://127.0.0.1:8787/mcp/notes", token: "sg_x" };

    #[test]
    fn every_client_is_told_where_and_with_what() {
        for SetUp { client, text, .. } in ACCESS.set_ups() {
            for part in ["notes", "http://127.0.0.1:8787/mcp/notes", "Bearer sg_x"] {
                assert!(text.contains(part), "{client}: {text}");
            }
        }
    }

    #[test]
    fn what_goes_into_a_file_is_of_its_format() {
        for SetUp { client, file, text } in ACCESS.set_ups() {
            match file {
                Some("~/.codex/config.toml") => {
                    let read: toml::Table = toml::from_str(&text).unwrap();
                    assert_eq!(read["mcp_servers"]["notes"]["url"].as_str(), Some(ACCESS.url));
                }
                Some(_) => {
                    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
                    let root = match client {
                        "VS Code" => "servers",
                        "Zed" => "context_servers",
                        _ => "mcpServers",
                    };
                    assert!(read[root]["notes"].is_object(), "{client}");
                }
                None => assert!(text.contains(" mcp add "), "{client}: {text}"),
            }
        }
    }

    #[test]
    fn only_a_url_in_the_clear_is_allowed_to_be_one() {
        let secure = Access { url: "https://gate.example/mcp", ..ACCESS };
        assert!(ACCESS.bridged().to_string().contains("--allow-http"));
        assert!(!secure.bridged().to_string().contains("--allow-http"));
    }
}
