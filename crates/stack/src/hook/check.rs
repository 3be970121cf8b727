//! What a client asks its hook, which server that is about, and the answer in the
//! client's own form.

use serde_json::{Value, json};

use crate::{
    client::Client,
    entry::{Entry, Transport},
    guarded::Guarded,
};

/// What a client asks the hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A session begins.
    Session,
    /// A tool of a server is about to be called.
    Call(Called),
    /// Something that concerns no MCP server.
    Other,
}

/// What a hook is told of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Called {
    tool: String,
    server: Option<String>,
    command: Option<String>,
    url: Option<String>,
}

impl Asked {
    /// Reads what a client writes to its hook.
    pub fn read(client: Client, said: &Value) -> Asked {
        let text = |key: &str| said.get(key).and_then(Value::as_str).map(str::to_owned);
        let event = text("hook_event_name").unwrap_or_default();
        if event == "SessionStart" {
            return Asked::Session;
        }
        let context = said.get("mcp_context");
        let of_context = |key: &str| context?.get(key)?.as_str().map(str::to_owned);
        let tool = text("tool_name").unwrap_or_default();
        if client != Client::Cursor && !tool.starts_with("mcp_") && context.is_none() {
            return Asked::Other;
        }
        Asked::Call(Called {
            server: text("mcp_server_name").or_else(|| of_context("server_name")),
            command: text("command").or_else(|| of_context("command")),
            url: text("url").or_else(|| text("mcp_server_url")).or_else(|| of_context("url")),
            tool,
        })
    }
}

impl Called {
    /// The server as the client names it.
    pub fn server(&self) -> Option<String> {
        let named = self.server.clone();
        let of_tool = || self.tool.strip_prefix("mcp__")?.split("__").next().map(str::to_owned);
        named.or_else(of_tool)
    }

    /// Whether the call is one of this server.
    pub fn is_of(&self, entry: &Entry) -> bool {
        if let Some(server) = &self.server {
            // Cursor may put the scope before the name.
            let is_scoped = server.starts_with("user-") || server.starts_with("project-");
            return plain(server) == plain(&entry.name)
                || (is_scoped && server.ends_with(&format!("-{}", entry.name)));
        }
        let name = plain(&entry.name);
        if self.tool.starts_with(&format!("mcp__{name}__"))
            || self.tool.starts_with(&format!("mcp_{name}_"))
            || self.tool.starts_with(&format!("MCP:{}:", entry.name))
        {
            return true;
        }
        match &entry.transport {
            Transport::Command { program, args, .. } => {
                let words = std::iter::once(program).chain(args).map(Guarded::expose);
                let line = words.collect::<Vec<_>>().join(" ");
                // A client may tell the program alone, or all of the line.
                self.command.as_ref().is_some_and(|command| {
                    !command.is_empty()
                        && (line == *command || line.starts_with(&format!("{command} ")))
                })
            }
            Transport::Url { url, .. } => self.url.as_deref() == Some(url.expose()),
            Transport::Unclear => false,
        }
    }
}

/// A name as Claude Code writes it in names of tools.
fn plain(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(fits).collect()
}

/// What the hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It has nothing to say; the client goes on as without it.
    Pass,
    /// The user is to know this.
    Tell(String),
    /// The user is to decide; where a client cannot ask, the call is refused.
    Ask(String),
}

impl Answer {
    /// The answer as a client reads it.
    pub fn written(&self, client: Client) -> String {
        let answer = match (self, client) {
            // `allow` would pass over the client's own questions.
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
