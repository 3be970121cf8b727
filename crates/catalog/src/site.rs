//! Exports the catalogue as static web pages.
//!
//! There is one page per server and one per tool, an index with a search that runs in the
//! browser, and a page of attack patterns. The pages are written by `html`, which escapes
//! all third-party text; there is no template engine, because it would add a second version
//! of macro dependencies, and the pages are few.

mod attacks;
mod folder;
mod html;
mod index;
mod server;
mod tool;

use std::{io, path::PathBuf};

use crate::{Catalog, CatalogError, Server, Slugs, Tool};

use folder::Folder;
pub use folder::FolderError;

/// The number of servers read at once.
const AT_ONCE: u32 = 200;

/// Why a site was not written.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot write `{}`", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// The number of servers and tools written so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    pub servers: u64,
    pub tools: u64,
}

/// Functions that build the recommended policies of the pages. They are passed in, because the
/// catalogue does not know policies.
#[derive(Debug, Clone, Copy)]
pub struct Recommend {
    /// Builds a starting policy for these tools.
    pub policy: fn(&[&Tool]) -> Recommended,
    /// Builds the policy entry of one tool.
    pub entry: fn(&Tool) -> Recommended,
}

/// A recommended policy, or an entry of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommended {
    /// JSON text, formatted for people.
    pub text: String,
    /// Its effect in words, line by line.
    pub effect: Vec<String>,
}

/// A tool with the name of its page.
#[derive(Debug)]
struct Paged {
    tool: Tool,
    slug: String,
}

/// A site that is being written.
#[derive(Debug)]
struct Site<'c> {
    catalog: &'c Catalog,
    /// The only server to write, or `None` for all.
    only: Option<&'c Server>,
    folder: Folder,
    recommend: Recommend,
}

/// Writes the pages of the whole catalogue, or of one server.
pub fn write(
    catalog: &Catalog,
    only: Option<&Server>,
    folder: PathBuf,
    recommend: Recommend,
    mut progress: impl FnMut(Written),
) -> Result<Written, SiteError> {
    // Emptying a folder takes a while too.
    progress(Written::default());
    let site = Site { catalog, only, folder: Folder::prepare(folder)?, recommend };
    site.folder.write("style.css", include_str!("../assets/site/style.css"))?;
    site.folder.write("search.js", include_str!("../assets/site/search.js"))?;
    site.folder.write("attacks.html", &attacks::page())?;
    let stats = catalog.stats()?;
    let mut index = index::Index::new(only.is_none().then_some(&stats));
    let mut written = Written::default();
    let mut after = String::new();
    loop {
        let servers = site.servers(&after)?;
        let Some(last) = servers.last() else { break };
        after.clone_from(&last.slug);
        for server in &servers {
            let tools = assign_slugs(catalog.tools(server)?);
            site.write_server(server, &tools)?;
            index.add(server, &tools);
            written.servers += 1;
            written.tools += tools.len() as u64;
            progress(written);
        }
    }
    site.folder.write("data.js", &index.data())?;
    site.folder.write("index.html", &index.page())?;
    Ok(written)
}

impl Site<'_> {
    /// The next servers, after this slug.
    fn servers(&self, after: &str) -> Result<Vec<Server>, CatalogError> {
        match self.only {
            Some(server) if after.is_empty() => Ok(vec![server.clone()]),
            Some(_) => Ok(Vec::new()),
            None => self.catalog.servers(after, AT_ONCE),
        }
    }

    fn write_server(&self, server: &Server, tools: &[Paged]) -> Result<(), SiteError> {
        let own = format!("servers/{}", server.slug);
        self.folder.make(&own)?;
        self.folder
            .write(&format!("{own}/index.html"), &server::page(server, tools, self.recommend))?;
        for paged in tools {
            // Other servers are linked only if they have pages.
            let elsewhere = match self.only {
                Some(_) => Vec::new(),
                None => self.catalog.namesakes(server, &paged.tool.name)?,
            };
            let text = tool::page(server, paged, tools, &elsewhere, self.recommend);
            self.folder.write(&format!("{own}/{}.html", paged.slug), &text)?;
        }
        Ok(())
    }
}

fn assign_slugs(tools: Vec<Tool>) -> Vec<Paged> {
    let mut slugs = Slugs::default();
    tools.into_iter().map(|tool| Paged { slug: slugs.take(&tool.name), tool }).collect()
}
