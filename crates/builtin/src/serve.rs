//! The methods of a built-in server: initialization, ping, and tools.

use sluice_wire::{
    json::{Quoted, Value},
    mcp::{Era, META_SERVER, Method, MethodClass, Revision, Target},
};

use super::{Builtin, Call, Identity, Progress, ToolResult, fault, fault::Fault};

/// How long, and for whom, clients may cache answers: nothing in them changes while the process
/// runs, or depends on the caller.
const CACHING: &str = ",\"ttlMs\":300000,\"cacheScope\":\"public\"";

/// Only tools: no changing lists, no logs.
const CAPABILITIES: &str = "\"capabilities\":{\"tools\":{}}";

/// The result of a request.
#[derive(Debug)]
pub(super) struct Served {
    /// The result object.
    pub(super) result: String,
    /// Whether it was a tool call that failed, even if the caller is not told.
    pub(super) has_failed: bool,
}

/// Answers one request of a known protocol version.
pub(super) async fn serve(
    server: &dyn Builtin,
    revision: Revision,
    method: &str,
    params: Option<Value<'_>>,
    progress: &Progress,
) -> Result<Served, Fault> {
    let era = revision.era();
    let known = Method::find(method, revision).ok_or_else(|| Fault::method(method, era))?;
    let mut has_failed = false;
    let members = match (known.name, known.class) {
        ("initialize", _) => initialize(server, params)?,
        ("server/discover", _) => discover(server),
        ("ping", _) => String::new(),
        (_, MethodClass::ToolList) => list(server, params, era)?,
        (_, MethodClass::ToolCall) => {
            let result = call(server, params, progress).await?;
            has_failed = result.is_error || result.has_failed;
            result.members()
        }
        _ => return Err(Fault::method(method, era)),
    };
    let result = match era {
        Era::Legacy => format!("{{{members}}}"),
        Era::Modern => {
            let info = info(&server.identity());
            format!(
                "{{{members},\"resultType\":\"complete\",\
                 \"_meta\":{{\"{META_SERVER}\":{info}}}}}"
            )
        }
    };
    Ok(Served { result, has_failed })
}

/// Negotiates the legacy protocol version: the requested one, or the newest.
pub(super) fn negotiate_revision(params: Option<Value<'_>>) -> Option<Revision> {
    let asked = params?.get("protocolVersion")?.as_str()?;
    let is_legacy = |revision: &Revision| revision.era() == Era::Legacy;
    Revision::from_name(asked)
        .filter(is_legacy)
        .or_else(|| Revision::ALL.into_iter().rev().find(is_legacy))
}

fn initialize(server: &dyn Builtin, params: Option<Value<'_>>) -> Result<String, Fault> {
    let agreed = negotiate_revision(params)
        .ok_or_else(|| Fault::params(&"`params.protocolVersion` must be a string"))?;
    let identity = server.identity();
    Ok(format!(
        "\"protocolVersion\":{},{CAPABILITIES},\"serverInfo\":{},\"instructions\":{}",
        Quoted(agreed.name()),
        info(&identity),
        Quoted(identity.instructions),
    ))
}

fn discover(server: &dyn Builtin) -> String {
    let versions = fault::modern_versions();
    let instructions = Quoted(server.identity().instructions);
    format!(
        "\"supportedVersions\":{versions},{CAPABILITIES},\"instructions\":{instructions}{CACHING}"
    )
}

fn list(server: &dyn Builtin, params: Option<Value<'_>>, era: Era) -> Result<String, Fault> {
    if params.and_then(|params| params.get("cursor")).is_some() {
        return Err(Fault::params(&"there is one page only: leave `params.cursor` out"));
    }
    let caching = if era == Era::Modern { CACHING } else { "" };
    Ok(format!("\"tools\":{}{caching}", server.tools()))
}

async fn call(
    server: &dyn Builtin,
    params: Option<Value<'_>>,
    progress: &Progress,
) -> Result<ToolResult, Fault> {
    let target =
        Target::read(MethodClass::ToolCall, params).map_err(|error| Fault::params(&error))?;
    let Target::Tool { name, arguments } = target else {
        return Err(Fault::params(&"`params.name` must name a tool"));
    };
    let called = server.call(Call { tool: name, arguments, progress }).await;
    called.map_err(|_| Fault::params(&format_args!("unknown tool `{name}`")))
}

/// The `Implementation` object of MCP.
fn info(identity: &Identity<'_>) -> String {
    let (name, title) = (Quoted(identity.name), Quoted(identity.title));
    let version = Quoted(identity.version);
    format!("{{\"name\":{name},\"title\":{title},\"version\":{version}}}")
}
