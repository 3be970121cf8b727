//! `/servers`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use sluice_store::{Name, Secret, Server, Source, Transport};

use super::{
    Plane, Problem,
    assessment::AssessedTool,
    extract::{JsonBody, PathParams, RequestActor},
    run_to_completion,
};
use crate::{
    declare,
    live::Tool,
    ops::{Refused, WantedServer},
    span,
};

/// What stands in the place of what is not shown.
const MASK: &str = "…";

#[derive(Serialize)]
pub(super) struct ServerList {
    servers: Vec<ServerView>,
}

/// A server, without the values of its headers.
#[derive(Serialize, Default)]
pub(super) struct ServerView {
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
pub(super) struct ToolList {
    server: String,
    tools: Vec<AssessedTool>,
}

pub(super) async fn list(State(plane): State<Arc<Plane>>) -> Json<ServerList> {
    Json(ServerList { servers: plane.ops.servers().iter().map(ServerView::of).collect() })
}

pub(super) async fn show(
    State(plane): State<Arc<Plane>>,
    PathParams(name): PathParams<Name>,
) -> Result<Json<ServerView>, Problem> {
    Ok(Json(ServerView::of(&plane.ops.server(&name)?)))
}

pub(super) async fn add(
    State(plane): State<Arc<Plane>>,
    RequestActor(actor): RequestActor,
    JsonBody(new): JsonBody<NewServer>,
) -> Result<(StatusCode, Json<ServerView>), Problem> {
    let NewServer { name, url, headers, timeout, anonymous_policy, command, env } = new;
    if command.is_some() || env.is_some() {
        return Err(Refused::Command.into());
    }
    let url = url.ok_or_else(|| Problem::request("the body is wrong: missing field `url`"))?;
    let wanted = WantedServer { name, url, headers, timeout, anonymous_policy };
    let server =
        run_to_completion(async move { plane.ops.add_server(wanted, &actor).await }).await?;
    Ok((StatusCode::CREATED, Json(ServerView::of(&server))))
}

pub(super) async fn remove(
    State(plane): State<Arc<Plane>>,
    RequestActor(actor): RequestActor,
    PathParams(name): PathParams<Name>,
) -> Result<StatusCode, Problem> {
    run_to_completion(async move { plane.ops.remove_server(&name, &actor).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn tools(
    State(plane): State<Arc<Plane>>,
    PathParams(name): PathParams<Name>,
) -> Result<Json<ToolList>, Problem> {
    let tools = plane.ops.tools(&name, false).await?;
    Ok(Json(ToolList::of(&name, tools)))
}

pub(super) async fn refresh(
    State(plane): State<Arc<Plane>>,
    PathParams(name): PathParams<Name>,
) -> Result<Json<ToolList>, Problem> {
    let tools = plane.ops.tools(&name, true).await?;
    Ok(Json(ToolList::of(&name, tools)))
}

impl ServerView {
    fn of(server: &Server) -> ServerView {
        let common = ServerView {
            name: server.name.to_string(),
            source: source_name(server.source),
            timeout: span::written(server.timeout),
            anonymous_policy: server.anonymous_policy.as_ref().map(ToString::to_string),
            ..ServerView::default()
        };
        let names =
            |pairs: &[(String, Secret)]| pairs.iter().map(|(name, _)| name.clone()).collect();
        match &server.transport {
            Transport::Http { url, headers } => ServerView {
                transport: "http",
                url: Some(mask_url(url)),
                headers: names(headers),
                ..common
            },
            Transport::Builtin { name, .. } => {
                ServerView { transport: "builtin", builtin: Some(name.clone()), ..common }
            }
            Transport::Command { command, env, instances, start } => ServerView {
                transport: "stdio",
                command: Some(declare::shown_command(command)),
                instances: Some(instances.name()),
                start: Some(start.name()),
                env: names(env),
                ..common
            },
        }
    }
}

/// A URL without its query: keys are passed there too.
fn mask_url(url: &str) -> String {
    match url.split_once('?') {
        Some((place, _)) => format!("{place}?{MASK}"),
        None => url.to_owned(),
    }
}

impl ToolList {
    fn of(server: &Name, tools: Vec<Tool>) -> ToolList {
        let tools = tools.into_iter().map(AssessedTool::from).collect();
        ToolList { server: server.to_string(), tools }
    }
}

/// Where something was declared, in a word.
pub(super) fn source_name(source: Source) -> &'static str {
    match source {
        Source::File => "file",
        Source::Stored => "stored",
    }
}
