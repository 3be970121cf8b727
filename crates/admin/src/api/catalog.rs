//! `/catalog/servers`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use sluice_catalog::Query;
use sluice_classify::{Category, Risk, SignalKind};

use super::{
    Plane, Problem,
    extract::{PathParams, QueryParams},
};
use crate::known::{KnownHit, KnownServer, KnownServerPage, KnownToolPage};

/// Servers on one page, unless something else is asked for.
const DEFAULT_LIMIT: usize = 50;
/// Servers on one page, at most.
const MAX_LIMIT: usize = 500;

/// What is asked for: all servers, or those and tools that fit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogQuery {
    q: Option<String>,
    category: Option<String>,
    risk: Option<String>,
    signal: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Serialize)]
pub(super) struct CatalogPage {
    servers: Vec<KnownServer>,
    /// Only where something was searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<KnownHit>>,
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

/// The value of this name, or what it could be.
fn parse_choice<T: Copy>(
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

pub(super) async fn list(
    State(plane): State<Arc<Plane>>,
    QueryParams(question): QueryParams<CatalogQuery>,
) -> Result<Json<CatalogPage>, Problem> {
    let limit = question.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    if !question.is_search() {
        let after = question.cursor.unwrap_or_default();
        let (servers, next) = plane.ops.known_servers(after, limit).await?;
        let servers = servers.iter().map(KnownServer::from).collect();
        return Ok(Json(CatalogPage { servers, tools: None, next }));
    }
    let query = question.into_query(limit)?;
    let after = query.offset.saturating_add(limit);
    let found = plane.ops.find_known(query).await?;
    Ok(Json(CatalogPage {
        servers: found.servers.iter().map(KnownServer::from).collect(),
        tools: Some(found.tools.iter().map(KnownHit::from).collect()),
        next: found.more.then(|| after.to_string()),
    }))
}

pub(super) async fn show_server(
    State(plane): State<Arc<Plane>>,
    PathParams(slug): PathParams<String>,
) -> Result<Json<KnownServerPage>, Problem> {
    Ok(Json(plane.ops.known_server(slug).await?))
}

pub(super) async fn show_tool(
    State(plane): State<Arc<Plane>>,
    PathParams((slug, tool)): PathParams<(String, String)>,
) -> Result<Json<KnownToolPage>, Problem> {
    Ok(Json(plane.ops.known_tool(slug, tool).await?))
}
