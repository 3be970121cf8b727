//! The catalogue: looks up known servers and tools.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use sluice_catalog::{Catalog, CatalogError, Query, SearchResults, Server};

use super::{Ops, Refused};
use crate::known::{KnownServerPage, KnownToolPage};

/// The catalogue's file. It is opened on first use, because most gateways never need it in memory.
#[derive(Debug, Clone)]
pub(super) struct CatalogFile {
    path: PathBuf,
    open: Arc<Mutex<Option<Catalog>>>,
}

impl CatalogFile {
    pub(super) fn new(path: PathBuf) -> CatalogFile {
        CatalogFile { path, open: Arc::default() }
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, Refused> {
        // A poisoned lock is safe here: the thread that panicked was only reading.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            let opened = Catalog::open(&self.path);
            *open = Some(opened.map_err(|error| Refused::Catalog(error.to_string()))?);
        }
        let Some(catalog) = open.as_ref() else { return Err(Refused::Lost) };
        read(catalog).map_err(|error| Refused::Catalog(error.to_string()))
    }
}

impl Ops {
    /// Servers after this slug, in the order of their slugs, and the cursor of the next page.
    pub(crate) async fn known_servers(
        &self,
        after: String,
        limit: usize,
    ) -> Result<(Vec<Server>, Option<String>), Refused> {
        let most = u32::try_from(limit.saturating_add(1)).unwrap_or(u32::MAX);
        let mut servers = self.read_catalog(move |catalog| catalog.servers(&after, most)).await?;
        let has_more = servers.len() > limit;
        servers.truncate(limit);
        let next = servers.last().filter(|_| has_more).map(|server| server.slug.clone());
        Ok((servers, next))
    }

    /// Servers and tools that fit a query.
    pub(crate) async fn find_known(&self, query: Query) -> Result<SearchResults, Refused> {
        self.read_catalog(move |catalog| catalog.search(&query)).await
    }

    /// A server with its tools.
    pub(crate) async fn known_server(&self, slug: String) -> Result<KnownServerPage, Refused> {
        let missing = format!("server `{slug}` in the catalogue");
        let page = self.read_catalog(move |catalog| {
            let server = catalog.server_by_slug(&slug)?;
            server.map(|server| KnownServerPage::read(catalog, &server)).transpose()
        });
        page.await?.ok_or(Refused::Missing(missing))
    }

    /// A tool with its details.
    pub(crate) async fn known_tool(
        &self,
        slug: String,
        tool: String,
    ) -> Result<KnownToolPage, Refused> {
        let missing = format!("tool `{tool}` of server `{slug}` in the catalogue");
        let page = self.read_catalog(move |catalog| {
            let Some(server) = catalog.server_by_slug(&slug)? else { return Ok(None) };
            let Some(tool) = catalog.tool(&server, &tool)? else { return Ok(None) };
            KnownToolPage::read(catalog, &server, &tool).map(Some)
        });
        page.await?.ok_or(Refused::Missing(missing))
    }

    /// Reads on another thread, so that other requests are not delayed.
    async fn read_catalog<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Catalog) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, Refused> {
        let catalog = self.catalog.clone();
        match tokio::task::spawn_blocking(move || catalog.read(read)).await {
            Ok(read) => read,
            Err(_) => Err(Refused::Lost),
        }
    }
}
