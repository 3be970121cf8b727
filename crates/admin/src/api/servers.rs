//! `/servers`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use sluice_store::{MaskedTransport, Name, Server, Source};

use super::{
    Plane, Problem,
    assessment::AssessedTool,
    extract::{By, Json, Named},
    whole,
};
use crate::{
    live::Tool,
    ops::{Refused, WantedServer},
    span,
};

#[derive(Serialize)]
pub(super) struct Servers {
    servers: Vec<ShownServer>,
}

/// A server, without the values of its headers.
#[derive(Serialize, Default)]
pub(super) struct ShownServer {
    name: String,
    source: &'static str,
    transport: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    builtin: Option<String>,
    /// Without what may be secret in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<&'static str>,
    /// Names of the variables that are set for the command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<String>,
    /// Their names.
    headers: Vec<String>,
    timeout: String,
    anonymous_policy: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewServer {
    name: String,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    timeout: Option<String>,
    anonymous_policy: Option<String>,
    /// Known only so as to be refused for what it is.
    command: Option<IgnoredAny>,
    env: Option<IgnoredAny>,
}

#[derive(Serialize)]
pub(super) struct Tools {
    server: String,
    tools: Vec<AssessedTool>,
}

pub(super) async fn list(State(plane): State<Arc<Plane>>) -> Answer<Servers> {
    Answer(Servers { servers: plane.ops.servers().iter().map(ShownServer::of).collect() })
}

pub(super) async fn show(
    State(plane): State<Arc<Plane>>,
    Named(name): Named<Name>,
) -> Result<Answer<ShownServer>, Problem> {
    Ok(Answer(ShownServer::of(&plane.ops.server(&name)?)))
}

pub(super) async fn add(
    State(plane): State<Arc<Plane>>,
    By(actor): By,
    Json(new): Json<NewServer>,
) -> Result<(StatusCode, Answer<ShownServer>), Problem> {
    let NewServer { name, url, headers, timeout, anonymous_policy, command, env } = new;
    if command.is_some() || env.is_some() {
        return Err(Refused::Command.into());
    }
    let url = url.ok_or_else(|| Problem::request("the body is wrong: missing field `url`"))?;
    let wanted = WantedServer { name, url, headers, timeout, anonymous_policy };
    let server = whole(async move { plane.ops.add_server(wanted, &actor).await }).await?;
    Ok((StatusCode::CREATED, Answer(ShownServer::of(&server))))
}

pub(super) async fn remove(
    State(plane): State<Arc<Plane>>,
    By(actor): By,
    Named(name): Named<Name>,
) -> Result<StatusCode, Problem> {
    whole(async move { plane.ops.remove_server(&name, &actor).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn tools(
    State(plane): State<Arc<Plane>>,
    Named(name): Named<Name>,
) -> Result<Answer<Tools>, Problem> {
    let tools = plane.ops.tools(&name, false).await?;
    Ok(Answer(Tools::of(&name, tools)))
}

pub(super) async fn refresh(
    State(plane): State<Arc<Plane>>,
    Named(name): Named<Name>,
) -> Result<Answer<Tools>, Problem> {
    let tools = plane.ops.tools(&name, true).await?;
    Ok(Answer(Tools::of(&name, tools)))
}

impl ShownServer {
    fn of(server: &Server) -> ShownServer {
        let common = ShownServer {
            name: server.name.to_string(),
            source: source(server.source),
            timeout: span::written(server.timeout),
            anonymous_policy: server.anonymous_policy.as_ref().map(ToString::to_string),
            ..ShownServer::default()
        };
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        match server.transport.mask() {
            MaskedTransport::Http { url, headers } => {
                ShownServer { transport: "http", url: Some(url), headers: names(headers), ..common }
            }
            MaskedTransport::Builtin { name, .. } => {
                ShownServer { transport: "builtin", builtin: Some(name.to_owned()), ..common }
            }
            MaskedTransport::Command { command, env, instances, start } => ShownServer {
                transport: "stdio",
                command: Some(command),
                instances: Some(instances.name()),
                start: Some(start.name()),
                env: names(env),
                ..common
            },
        }
    }
}

impl Tools {
    fn of(server: &Name, tools: Vec<Tool>) -> Tools {
        let tools = tools.into_iter().map(AssessedTool::from).collect();
        Tools { server: server.to_string(), tools }
    }
}

/// Where something was declared, in a word.
pub(super) fn source(source: Source) -> &'static str {
    match source {
        Source::File => "file",
        Source::Stored => "stored",
    }
}
