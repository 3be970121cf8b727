//! `/servers`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use sluice_config::span;
use sluice_store::{MaskedTransport, Name, Patch, Server, Source};
use utoipa::{IntoParams, ToSchema};

use super::{
    AdminState, Problem,
    assessment::AssessedTool,
    extract::{self, JsonBody, PathParams, QueryParams, RequestActor, RequestCaller},
    openapi::{
        BadGateway, Conflict, ContentTooLarge, InternalServerError, NotFound, ServiceUnavailable,
        UnprocessableContent, UnsupportedMediaType,
    },
    paging::cut_page,
    run_to_completion,
};
use crate::{
    live::Tool,
    ops::{Refused, ServerChanges, WantedServer},
    schema::{ObjectName, ProcessSharing, ProcessStart, TimeSpan},
};

/// A page of servers, by name.
#[derive(Serialize, ToSchema)]
pub(super) struct ServerList {
    servers: Vec<ServerView>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// A server, without the values of its headers and variables.
#[derive(Serialize, ToSchema)]
pub(super) struct ServerView {
    #[schema(value_type = ObjectName)]
    name: String,
    source: DeclarationSource,
    transport: ServerTransport,
    /// Where the server is, without what may be a secret. Only with transport `http`.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Which built-in server it is. Only with transport `builtin`.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    builtin: Option<String>,
    /// The command and its arguments, with secrets masked. Only with transport `stdio`.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    #[schema(value_type = ProcessSharing, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<&'static str>,
    #[schema(value_type = ProcessStart, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<&'static str>,
    /// Names of the variables that are set for the command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<String>,
    /// Names of the headers that are sent to the server.
    headers: Vec<String>,
    /// How long the server may be silent.
    #[schema(value_type = TimeSpan)]
    timeout: String,
    /// The policy for callers without a token.
    #[schema(value_type = Option<ObjectName>, required)]
    anonymous_policy: Option<String>,
}

/// Whether something is declared in the configuration file, or is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeclarationSource {
    File,
    Stored,
}

/// How the gateway speaks to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ServerTransport {
    Http,
    Stdio,
    Builtin,
}

/// A server to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewServer {
    #[schema(value_type = ObjectName)]
    name: String,
    /// Where the server is: `http` or `https`, without user name and fragment.
    #[schema(value_type = String, format = "uri", pattern = "^[Hh][Tt][Tt][Pp][Ss]?:", required)]
    url: Option<String>,
    /// Headers to send to the server.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// How long the server may be silent, by default `60s`.
    #[schema(value_type = Option<TimeSpan>)]
    timeout: Option<String>,
    /// The policy for callers without a token.
    #[schema(value_type = Option<ObjectName>)]
    anonymous_policy: Option<String>,
    /// Known only so that the refusal can say why.
    #[schema(ignore)]
    command: Option<IgnoredAny>,
    #[schema(ignore)]
    env: Option<IgnoredAny>,
}

/// New values for some properties of a server. A property that is left out keeps its value.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerPatch {
    /// Where the server is from now on.
    #[schema(value_type = Option<String>, nullable = false, format = "uri", pattern = "^[Hh][Tt][Tt][Pp][Ss]?:")]
    url: Option<String>,
    /// Headers to set, or with null to remove; others stay.
    #[serde(default)]
    headers: BTreeMap<String, Option<String>>,
    /// How long the server may be silent.
    #[schema(value_type = Option<TimeSpan>, nullable = false)]
    timeout: Option<String>,
    /// The policy for callers without a token; null for none.
    #[schema(value_type = Option<ObjectName>)]
    #[serde(default, deserialize_with = "extract::read_patch")]
    anonymous_policy: Patch<String>,
}

/// The tools of a server, with their assessment.
#[derive(Serialize, ToSchema)]
pub(super) struct ToolList {
    #[schema(value_type = ObjectName)]
    server: String,
    tools: Vec<AssessedTool>,
}

/// Filters, all of which must hold, and the page.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerQuery {
    /// Servers that are declared so.
    #[param(value_type = DeclarationSource, required = false)]
    source: Option<DeclarationSource>,
    /// Servers that are reached so.
    #[param(value_type = ServerTransport, required = false)]
    transport: Option<ServerTransport>,
    /// How many to answer with, at most and by default 1000.
    #[param(value_type = u64, required = false)]
    limit: Option<usize>,
    /// `next` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
}

/// List the servers
#[utoipa::path(
    get,
    path = "/servers",
    operation_id = "list_servers",
    tag = "servers",
    params(ServerQuery),
    responses((status = 200, description = "A page of servers, by name", body = ServerList))
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(asked): QueryParams<ServerQuery>,
) -> Json<ServerList> {
    let servers = state.ops.servers();
    let covered = servers.iter().filter(|server| caller.covers(&server.name));
    let views = covered.map(ServerView::of).filter(|server| {
        asked.source.is_none_or(|source| server.source == source)
            && asked.transport.is_none_or(|transport| server.transport == transport)
    });
    let (servers, next) =
        cut_page(views, |server| &server.name, asked.cursor.as_deref(), asked.limit);
    Json(ServerList { servers, next })
}

/// Show a server
#[utoipa::path(
    get,
    path = "/servers/{name}",
    operation_id = "show_server",
    tag = "servers",
    params(("name" = ObjectName, Path, description = "The name of the server")),
    responses((status = 200, description = "The server", body = ServerView), NotFound)
)]
pub(super) async fn show(
    State(state): State<Arc<AdminState>>,
    PathParams(name): PathParams<Name>,
) -> Result<Json<ServerView>, Problem> {
    Ok(Json(ServerView::of(&state.ops.server(&name)?)))
}

/// Add a server
///
/// Only servers that are reached over HTTP can be added; those that are started as a
/// command are refused with 403.
#[utoipa::path(
    post,
    path = "/servers",
    operation_id = "add_server",
    tag = "servers",
    request_body = NewServer,
    responses(
        (status = 201, description = "The server was added and can be called", body = ServerView),
        Conflict,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn add(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    JsonBody(new): JsonBody<NewServer>,
) -> Result<(StatusCode, Json<ServerView>), Problem> {
    let NewServer { name, url, headers, timeout, anonymous_policy, command, env } = new;
    if !caller.covers_text(&name) {
        return Err(Problem::other_server(&caller, &name));
    }
    let actor = caller.actor();
    if command.is_some() || env.is_some() {
        return Err(Refused::Command.into());
    }
    let url = url.ok_or_else(|| Problem::request("the body is wrong: missing field `url`"))?;
    let wanted = WantedServer { name, url, headers, timeout, anonymous_policy };
    let server =
        run_to_completion(async move { state.ops.add_server(wanted, &actor).await }).await?;
    Ok((StatusCode::CREATED, Json(ServerView::of(&server))))
}

/// Change a server
///
/// Its policies stay attached. Only servers that were added over HTTP can be changed.
#[utoipa::path(
    patch,
    path = "/servers/{name}",
    operation_id = "edit_server",
    tag = "servers",
    params(("name" = ObjectName, Path, description = "The name of the server")),
    request_body = ServerPatch,
    responses(
        (status = 200, description = "The server as it is now", body = ServerView),
        NotFound,
        Conflict,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn edit(
    State(state): State<Arc<AdminState>>,
    RequestActor(actor): RequestActor,
    PathParams(name): PathParams<Name>,
    JsonBody(patch): JsonBody<ServerPatch>,
) -> Result<Json<ServerView>, Problem> {
    let ServerPatch { url, headers, timeout, anonymous_policy } = patch;
    let changes = ServerChanges { url, headers, timeout, anonymous_policy };
    let edit = async move { state.ops.edit_server(&name, changes, &actor).await };
    Ok(Json(ServerView::of(&run_to_completion(edit).await?)))
}

/// Remove a server
///
/// Its policies are removed with it.
#[utoipa::path(
    delete,
    path = "/servers/{name}",
    operation_id = "remove_server",
    tag = "servers",
    params(("name" = ObjectName, Path, description = "The name of the server")),
    responses(
        (status = 204, description = "The server was removed"),
        NotFound,
        Conflict,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn remove(
    State(state): State<Arc<AdminState>>,
    RequestActor(actor): RequestActor,
    PathParams(name): PathParams<Name>,
) -> Result<StatusCode, Problem> {
    run_to_completion(async move { state.ops.remove_server(&name, &actor).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the tools of a server
#[utoipa::path(
    get,
    path = "/servers/{name}/tools",
    operation_id = "list_tools",
    tag = "servers",
    params(("name" = ObjectName, Path, description = "The name of the server")),
    responses((status = 200, description = "Its tools", body = ToolList), NotFound, BadGateway)
)]
pub(super) async fn list_tools(
    State(state): State<Arc<AdminState>>,
    PathParams(name): PathParams<Name>,
) -> Result<Json<ToolList>, Problem> {
    let tools = state.ops.tools(&name, false).await?;
    Ok(Json(ToolList::of(&name, tools)))
}

/// List the tools of a server, after asking the server again
#[utoipa::path(
    post,
    path = "/servers/{name}/refresh",
    operation_id = "refresh_tools",
    tag = "servers",
    params(("name" = ObjectName, Path, description = "The name of the server")),
    responses((status = 200, description = "Its tools", body = ToolList), NotFound, BadGateway)
)]
pub(super) async fn refresh(
    State(state): State<Arc<AdminState>>,
    PathParams(name): PathParams<Name>,
) -> Result<Json<ToolList>, Problem> {
    let tools = state.ops.tools(&name, true).await?;
    Ok(Json(ToolList::of(&name, tools)))
}

impl ServerView {
    fn of(server: &Server) -> ServerView {
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        match server.transport.mask() {
            MaskedTransport::Http { url, headers } => ServerView {
                url: Some(url),
                headers: names(headers),
                ..ServerView::new(server, ServerTransport::Http)
            },
            MaskedTransport::Builtin { name, .. } => ServerView {
                builtin: Some(name.to_owned()),
                ..ServerView::new(server, ServerTransport::Builtin)
            },
            MaskedTransport::Command { command, env, instances, start } => ServerView {
                command: Some(command),
                instances: Some(instances.name()),
                start: Some(start.name()),
                env: names(env),
                ..ServerView::new(server, ServerTransport::Stdio)
            },
        }
    }

    /// The fields that do not depend on the transport.
    fn new(server: &Server, transport: ServerTransport) -> ServerView {
        ServerView {
            name: server.name.to_string(),
            source: server.source.into(),
            transport,
            url: None,
            builtin: None,
            command: None,
            instances: None,
            start: None,
            env: Vec::new(),
            headers: Vec::new(),
            timeout: span::format_span(server.timeout),
            anonymous_policy: server.anonymous_policy.as_ref().map(ToString::to_string),
        }
    }
}

impl ToolList {
    fn of(server: &Name, tools: Vec<Tool>) -> ToolList {
        let tools = tools.into_iter().map(AssessedTool::from).collect();
        ToolList { server: server.to_string(), tools }
    }
}

impl From<Source> for DeclarationSource {
    fn from(source: Source) -> DeclarationSource {
        match source {
            Source::File => DeclarationSource::File,
            Source::Stored => DeclarationSource::Stored,
        }
    }
}
