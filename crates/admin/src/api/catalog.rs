//! `/catalog/servers`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use sluice_catalog::Query;
use sluice_classify::{Category, Risk, SignalKind};
use utoipa::{IntoParams, ToSchema};

use super::{
    AdminState, Problem,
    extract::{PathParams, QueryParams},
    openapi::{InternalServerError, NotFound},
};
use crate::{
    known::{KnownHit, KnownServer, KnownServerPage, KnownToolPage},
    schema::{ToolCategory, ToolRisk, ToolSignal},
};

/// Results on a page by default.
const DEFAULT_LIMIT: usize = 50;
/// Results on a page, at most.
const MAX_LIMIT: usize = 500;

/// A page of all servers, or a search for servers and tools.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogQuery {
    /// Words to search for.
    #[param(nullable = false)]
    q: Option<String>,
    /// Tools of this category.
    #[param(value_type = ToolCategory, required = false)]
    category: Option<String>,
    /// Tools of this risk.
    #[param(value_type = ToolRisk, required = false)]
    risk: Option<String>,
    /// Tools with this signal.
    #[param(value_type = ToolSignal, required = false)]
    signal: Option<String>,
    /// How many results to answer with, at most 500, by default 50.
    #[param(value_type = u64, required = false)]
    limit: Option<usize>,
    /// `next` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
}

/// A page of servers in the order of their slugs, or of search results.
#[derive(Serialize, ToSchema)]
pub(super) struct CatalogPage {
    servers: Vec<KnownServer>,
    /// Only in the answer to a search.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<KnownHit>>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

impl CatalogQuery {
    fn is_search(&self) -> bool {
        [&self.q, &self.category, &self.risk, &self.signal].into_iter().any(Option::is_some)
    }

    fn into_query(self, limit: usize) -> Result<Query, Problem> {
        let offset = self.cursor.as_deref().unwrap_or("0").parse();
        Ok(Query {
            words: self.q.unwrap_or_default(),
            categories: parse_choice("category", self.category, &Category::ALL, Category::name)?,
            risks: parse_choice("risk", self.risk, &Risk::ALL, Risk::name)?,
            signals: parse_choice("signal", self.signal, &SignalKind::ALL, SignalKind::name)?,
            offset: offset.map_err(|_| Problem::request("`cursor` must be one that was given"))?,
            limit,
        })
    }
}

/// Parses the name of a value; the error lists all names.
pub(super) fn parse_choice<T: Copy>(
    key: &str,
    text: Option<String>,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Vec<T>, Problem> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let names = || all.iter().map(|one| format!("`{}`", name(*one))).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|one| name(**one) == text);
    let found =
        found.ok_or_else(|| Problem::request(format!("`{key}` must be one of {}", names())));
    Ok(vec![*found?])
}

/// List or search the catalogue
///
/// Any of `q`, `category`, `risk` and `signal` makes it a search, whose best results
/// come first.
#[utoipa::path(
    get,
    path = "/catalog/servers",
    operation_id = "search_catalog",
    tag = "catalog",
    params(CatalogQuery),
    responses(
        (status = 200, description = "A page of results", body = CatalogPage),
        InternalServerError,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    QueryParams(question): QueryParams<CatalogQuery>,
) -> Result<Json<CatalogPage>, Problem> {
    let limit = question.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    if !question.is_search() {
        let after = question.cursor.unwrap_or_default();
        let (servers, next) = state.ops.known_servers(after, limit).await?;
        let servers = servers.iter().map(KnownServer::from).collect();
        return Ok(Json(CatalogPage { servers, tools: None, next }));
    }
    let query = question.into_query(limit)?;
    let after = query.offset.saturating_add(limit);
    let found = state.ops.find_known(query).await?;
    Ok(Json(CatalogPage {
        servers: found.servers.iter().map(KnownServer::from).collect(),
        tools: Some(found.tools.iter().map(KnownHit::from).collect()),
        next: found.more.then(|| after.to_string()),
    }))
}

/// Show a server of the catalogue
#[utoipa::path(
    get,
    path = "/catalog/servers/{slug}",
    operation_id = "show_catalog_server",
    tag = "catalog",
    params(("slug" = String, Path, description = "The slug of the server")),
    responses(
        (status = 200, description = "The server and its tools", body = KnownServerPage),
        NotFound,
        InternalServerError,
    )
)]
pub(super) async fn show_server(
    State(state): State<Arc<AdminState>>,
    PathParams(slug): PathParams<String>,
) -> Result<Json<KnownServerPage>, Problem> {
    Ok(Json(state.ops.known_server(slug).await?))
}

/// Show a tool of the catalogue
#[utoipa::path(
    get,
    path = "/catalog/servers/{slug}/tools/{tool}",
    operation_id = "show_catalog_tool",
    tag = "catalog",
    params(
        ("slug" = String, Path, description = "The slug of the server"),
        ("tool" = String, Path, description = "The exact name of the tool"),
    ),
    responses(
        (status = 200, description = "The tool", body = KnownToolPage),
        NotFound,
        InternalServerError,
    )
)]
pub(super) async fn show_tool(
    State(state): State<Arc<AdminState>>,
    PathParams((slug, tool)): PathParams<(String, String)>,
) -> Result<Json<KnownToolPage>, Problem> {
    Ok(Json(state.ops.known_tool(slug, tool).await?))
}
