//! Prints the configuration for each MCP client; `stack` knows its content.

use std::fmt::Write as _;

use sluice_stack::{Access, Client, SetUp};

use crate::output::{FAINT, STRONG};

/// The configuration steps for each client, for people to read.
pub(crate) fn for_all_clients(access: &Access<'_>) -> String {
    draw(&access.set_ups())
}

/// The steps for one client with a command and for one with the most common file.
pub(crate) fn for_usual_clients(access: &Access<'_>) -> String {
    let mut set_ups = access.set_ups();
    set_ups.retain(|one| matches!(one.client, Client::ClaudeCode | Client::Project));
    draw(&set_ups)
}

fn draw(set_ups: &[SetUp]) -> String {
    let mut text = format!("{STRONG}For an MCP client:{STRONG:#}\n");
    for SetUp { client, file, text: content } in set_ups {
        let place = match (client, file) {
            // Most other clients use the same format as the shared project file.
            (Client::Project, _) => "any other, in its JSON configuration".to_owned(),
            (_, Some(file)) => format!("{client}, in {file}"),
            (_, None) => client.to_string(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {FAINT}# {place}{FAINT:#}");
        for line in content.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Access, for_all_clients};

    #[test]
    fn each_client_has_a_heading_and_its_text() {
        let access = Access { name: "notes", url: "https://gate/mcp", token: "sg_x" };
        let plain = anstream::adapter::strip_str(&for_all_clients(&access)).to_string();
        let headings: Vec<_> = plain.lines().filter(|line| line.starts_with("  # ")).collect();
        assert_eq!(
            headings,
            [
                "  # Claude Code",
                "  # Gemini CLI",
                "  # Claude Desktop, in claude_desktop_config.json",
                "  # Cursor, in ~/.cursor/mcp.json",
                "  # VS Code, in .vscode/mcp.json",
                "  # Windsurf, in ~/.codeium/windsurf/mcp_config.json",
                "  # Codex, in ~/.codex/config.toml",
                "  # Zed, in ~/.config/zed/settings.json",
                "  # any other, in its JSON configuration",
            ]
        );
        assert!(plain.contains("\n  [mcp_servers.notes]\n  url = "), "{plain}");
    }
}
