//! The Pharo Smalltalk Interop MCP server: tools that read and change a running
//! Pharo image, over the HTTP port that `PharoSmalltalkInteropServer` opens in it.
//!
//! Each tool is one HTTP call. Answers of the image are returned unchanged; this crate
//! adds only its own errors, such as that the image cannot be reached.

mod arguments;
mod image;
mod options;
mod outcome;
mod screenshot;
mod tool;

use sluice_builtin::{Builtin, Call, Calling, Identity, ToolResult};

use image::Image;
use tool::Tool;

pub use options::{DEFAULT_PORT, DEFAULT_TIMEOUT, Options, OptionsError};

/// The original's name, by which clients know it.
const NAME: &str = "pharo-smalltalk-interop-mcp-server";

const INSTRUCTIONS: &str = "Reads and changes a running Pharo Smalltalk image. \
     Every answer is an object: `success` says whether it worked, `result` holds the value, \
     and `error` says what went wrong in the image.";

/// The server, for one image.
#[derive(Debug)]
pub struct Pharo {
    tools: String,
    image: Image,
    /// Whether callers are told of failures with `isError`.
    tool_errors: bool,
}

impl Pharo {
    /// A server for the image in the options. This does not connect yet.
    pub fn new(options: &Options) -> Result<Pharo, OptionsError> {
        // One line, because messages are separated by line breaks. JSON strings contain no raw line
        // breaks, so no string is changed.
        let tools = include_str!("tools.json").lines().map(str::trim).collect();
        let image = Image::new(options)?;
        Ok(Pharo { tools, image, tool_errors: options.tool_errors })
    }

    async fn run(&self, call: Call<'_>) -> ToolResult {
        let Some(tool) = Tool::find(call.tool) else {
            return ToolResult::error(format!("Unknown tool: '{}'", call.tool));
        };
        let request = match tool.request(call.arguments) {
            Ok(request) => request,
            Err(problem) => return ToolResult::error(problem.to_string()),
        };
        let answered = self.image.ask(request, call.progress).await;
        let mut result = outcome::result(tool.name, answered);
        if tool.takes_pictures && self.image.is_here() {
            screenshot::attach(&mut result).await;
        }
        result.is_error |= self.tool_errors && result.has_failed;
        result
    }
}

impl Builtin for Pharo {
    fn identity(&self) -> Identity<'_> {
        Identity {
            name: NAME,
            title: "Pharo Smalltalk Interop",
            version: env!("CARGO_PKG_VERSION"),
            instructions: INSTRUCTIONS,
        }
    }

    fn tools(&self) -> &str {
        &self.tools
    }

    fn call<'a>(&'a self, call: Call<'a>) -> Calling<'a> {
        Box::pin(async move { Ok(self.run(call).await) })
    }

    fn has_long_calls(&self) -> bool {
        true
    }
}
