//! The protocol of client hooks: a client's question, the server that it is about, and
//! the answer in the client's format.

use serde_json::{Value, json};

use crate::{
    client::Client,
    entry::{Entry, Transport},
    guarded::Guarded,
};

/// A client's question to the hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookQuestion {
    /// A session starts.
    Session,
    /// A tool of a server is about to be called.
    Call(HookCall),
    /// An event that concerns no MCP server.
    Other,
}

/// A call, as a client describes it to the hook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookCall {
    tool: String,
    server: Option<String>,
    command: Option<String>,
    url: Option<String>,
}

impl HookQuestion {
    /// Parses a client's question.
    pub fn read(client: Client, said: &Value) -> HookQuestion {
        let text = |key: &str| said.get(key).and_then(Value::as_str).map(str::to_owned);
        let event = text("hook_event_name").unwrap_or_default();
        if event == "SessionStart" {
            return HookQuestion::Session;
        }
        let context = said.get("mcp_context");
        let of_context = |key: &str| context?.get(key)?.as_str().map(str::to_owned);
        let tool = text("tool_name").unwrap_or_default();
        if client != Client::Cursor && !tool.starts_with("mcp_") && context.is_none() {
            return HookQuestion::Other;
        }
        HookQuestion::Call(HookCall {
            server: text("mcp_server_name").or_else(|| of_context("server_name")),
            command: text("command").or_else(|| of_context("command")).filter(|c| !c.is_empty()),
            url: text("url").or_else(|| text("mcp_server_url")).or_else(|| of_context("url")),
            tool,
        })
    }
}

impl HookCall {
    /// The server as the client names it.
    pub fn server(&self) -> Option<String> {
        let named = self.server.clone();
        let of_tool = || self.tool.strip_prefix("mcp__")?.split("__").next().map(str::to_owned);
        named.or_else(of_tool)
    }

    /// Whether the call goes to this server: the name matches, and also the command or URL if the
    /// client sends it.
    pub fn is_of(&self, entry: &Entry) -> bool {
        let agrees = self.agrees(entry);
        match &self.server {
            Some(server) => is_called(server, &entry.name) && agrees != Some(false),
            None => (self.is_tool_of(&entry.name) && agrees != Some(false)) || agrees == Some(true),
        }
    }

    fn is_tool_of(&self, name: &str) -> bool {
        let written = plain(name);
        self.tool.starts_with(&format!("mcp__{written}__"))
            || self.tool.starts_with(&format!("mcp_{written}_"))
            || self.tool.starts_with(&format!("MCP:{name}:"))
    }

    /// Whether the client's command or URL is that of the entry; `None` if unknown.
    fn agrees(&self, entry: &Entry) -> Option<bool> {
        let told = self.command.as_ref().or(self.url.as_ref())?;
        let written = match &entry.own {
            Transport::Command { program, args, .. } => {
                let words = std::iter::once(program).chain(args).map(Guarded::expose);
                words.collect::<Vec<_>>().join(" ")
            }
            Transport::Url { url, .. } => url.expose().to_owned(),
            Transport::Unclear => return None,
        };
        // The client has expanded variables that are unexpanded in the file.
        if written.contains("${") {
            return None;
        }
        Some(match &entry.own {
            // A client may send the program only, or the whole command line with its own quoting.
            Transport::Command { .. } => {
                self.command.is_some()
                    && (remove_quotes(&written) == remove_quotes(told)
                        || written.starts_with(&format!("{told} ")))
            }
            _ => self.url.as_deref().is_some_and(|url| slashless(url) == slashless(&written)),
        })
    }
}

/// Whether a client means the server of this name.
fn is_called(server: &str, name: &str) -> bool {
    // Cursor may prefix the scope to the name.
    let of_user = server.strip_prefix("user-").is_some_and(|rest| plain(rest) == plain(name));
    let of_project = server.starts_with("project-") && server.ends_with(&format!("-{name}"));
    plain(server) == plain(name) || of_user || of_project
}

fn remove_quotes(line: &str) -> String {
    line.replace(['"', '\'', '\\', ' '], "")
}

fn slashless(url: &str) -> &str {
    url.strip_suffix('/').unwrap_or(url)
}

/// The form of a name that Claude Code uses in tool names.
fn plain(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(fits).collect()
}

/// The answer of the hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// No objection: the client continues as without the hook.
    Pass,
    /// A message for the user.
    Tell(String),
    /// The user must decide; if a client cannot ask, the call is refused.
    Ask(String),
}

impl Answer {
    /// The answer in the client's format.
    pub fn to_client_json(&self, client: Client) -> String {
        let answer = match (self, client) {
            // `allow` would skip the client's own confirmation.
            (Answer::Pass, _) => json!({}),
            (Answer::Tell(text), _) => json!({ "systemMessage": text }),
            (Answer::Ask(text), Client::Cursor) => json!({
                "permission": "ask", "user_message": text, "agent_message": text,
            }),
            (Answer::Ask(text), Client::Gemini) => json!({ "decision": "deny", "reason": text }),
            (Answer::Ask(text), _) => json!({ "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "ask",
                "permissionDecisionReason": text,
            } }),
        };
        answer.to_string()
    }
}
