//! MCP servers that run inside this process, behind one trait.
//!
//! [`Endpoint`] serves them over streamable HTTP, in both eras, so that the gateway treats a
//! built-in server like a remote one; [`serve_stdio`] serves one client over stdio. The
//! servers themselves are in crates of their own. Access control by origin and token is left
//! to the listener.

mod calls;
mod endpoint;
mod fault;
mod mirror;
mod progress;
mod serve;
mod stdio;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, pin::Pin};

use sluice_wire::json::{Quoted, Value};

pub use endpoint::{Endpoint, Verdict};
pub use progress::Progress;
pub use stdio::serve_stdio;

/// A server that answers calls within this process.
///
/// Its tools are the same for all callers, and do not change while it runs.
pub trait Builtin: Send + Sync + 'static {
    /// The name and version of the server.
    fn identity(&self) -> Identity<'_>;

    /// The tool definitions: a JSON list on one line, as in a `tools/list` result.
    fn tools(&self) -> &str;

    /// Calls one tool. A call that is cancelled, or whose caller is gone, is dropped.
    fn call<'a>(&'a self, call: Call<'a>) -> Calling<'a>;

    /// Whether calls may take so long that clients cancel them. Legacy clients then get a session,
    /// within which a cancellation names its call.
    fn has_long_calls(&self) -> bool {
        false
    }
}

/// A call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub tool: &'a str,
    /// An object, if present.
    pub arguments: Option<Value<'a>>,
    /// Receives the progress of the call.
    pub progress: &'a Progress,
}

/// The future of a call.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<ToolResult, UnknownTool>> + Send + 'a>>;

/// The name and version of a server, and its instructions for models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'s> {
    pub name: &'s str,
    pub title: &'s str,
    pub version: &'s str,
    pub instructions: &'s str,
}

/// A tool's result, including its own failures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// Text for the model, one block each.
    pub content: Vec<String>,
    /// Images for the model, after the texts.
    pub images: Vec<Image>,
    /// The same result for programs: one JSON value on one line.
    pub structured: Option<String>,
    /// Whether the caller is told that the tool failed.
    pub is_error: bool,
    /// Whether the tool failed, even if the caller is not told so; for metrics.
    pub has_failed: bool,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub media_type: &'static str,
    /// The file's bytes in base64.
    pub data: String,
}

/// The server has no tool with this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownTool;

impl ToolResult {
    /// A result of one text.
    pub fn text(text: impl Into<String>) -> Self {
        ToolResult { content: vec![text.into()], ..ToolResult::default() }
    }

    /// A failure that the model should read, so that it can correct the call.
    pub fn error(text: impl Into<String>) -> Self {
        ToolResult { is_error: true, ..ToolResult::text(text) }
    }

    /// Adds the result for programs, which must be one JSON value on one line.
    #[must_use]
    pub fn with_structured(self, json: String) -> Self {
        ToolResult { structured: Some(json), ..self }
    }

    /// The members of the result object, without its braces.
    fn members(&self) -> String {
        let mut members = String::from("\"content\":[");
        for (position, text) in self.content.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            let text = Quoted(text);
            // Writing to a string cannot fail.
            let _ = write!(members, "{comma}{{\"type\":\"text\",\"text\":{text}}}");
        }
        for (position, image) in self.images.iter().enumerate() {
            let comma = if position > 0 || !self.content.is_empty() { "," } else { "" };
            let Image { media_type, data } = image;
            let _ = write!(
                members,
                "{comma}{{\"type\":\"image\",\"data\":\"{data}\",\"mimeType\":\"{media_type}\"}}"
            );
        }
        members.push(']');
        if let Some(structured) = &self.structured {
            members.push_str(",\"structuredContent\":");
            members.push_str(structured);
        }
        members.push_str(if self.is_error { ",\"isError\":true" } else { ",\"isError\":false" });
        members
    }
}
