//! Looks up servers, tools and related data by name.

use rusqlite::{OptionalExtension as _, Row, params};
use sluice_classify::{Category, SignalKind};

use crate::{
    bits::{Findings, Signals},
    catalog::{Catalog, CatalogError},
    entry::{Counts, Server, Standing, Tool, Traits},
    evidence,
    search::Hit,
    words,
};

macro_rules! servers {
    ($rest:literal) => {
        concat!(
            "SELECT id, first, slug, name, source, own, version, description, about, counts, findings FROM server ",
            $rest
        )
    };
}

macro_rules! tools {
    ($rest:literal) => {
        concat!(
            "SELECT category, confidence, signals, findings, name, description, evidence FROM tool ",
            $rest
        )
    };
}

pub(crate) const SERVER_BY_ID: &str = servers!("WHERE id = ?1");

/// The prefix of sources whose servers are named after their packages.
const BY_PACKAGE: &str = "toolsdk-ai/toolsdk-mcp-registry@";

/// The maximum number of related tools.
const MOST_RELATED: usize = 5;

/// The result of looking up a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    Server(Server),
    Tool(Server, Box<Tool>),
    /// A server, and the name of a tool that it does not have.
    NoTool(Server, String),
    Nothing,
}

/// Statistics of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    pub servers: u64,
    /// Servers that the user has imported.
    pub imported: u64,
    /// Servers whose tools are unknown.
    pub unknown: u64,
    pub tools: u64,
    /// Tools of each category, the mildest first.
    pub categories: Vec<(Category, u64)>,
    pub signals: Vec<(SignalKind, u64)>,
    /// Tools with signs of poisoning.
    pub with_findings: u64,
    /// The number of servers of each source, the largest first.
    pub sources: Vec<(String, u64)>,
}

impl Catalog {
    /// The server with this name or slug.
    pub fn server(&self, name: &str) -> Result<Option<Server>, CatalogError> {
        for by in [
            servers!("WHERE name = ?1"),
            servers!("WHERE slug = ?1"),
            servers!("WHERE name = ?1 COLLATE NOCASE ORDER BY id LIMIT 1"),
        ] {
            let mut statement = self.connection.prepare_cached(by)?;
            if let Some(server) = statement.query_row([name], read_server).optional()? {
                return Ok(Some(server));
            }
        }
        Ok(None)
    }

    /// The server of a package in a registry (`npm`, `pypi`): its definitions came from that
    /// package, or it is listed under the package's exact name.
    pub fn server_of_package(
        &self,
        registry: &str,
        name: &str,
    ) -> Result<Option<Server>, CatalogError> {
        let mut by_source = self.connection.prepare_cached(servers!(
            "WHERE substr(source, 1, length(?1)) = ?1 ORDER BY id LIMIT 1"
        ))?;
        let from = format!("{registry}:{name}@");
        let server = by_source.query_row([&from], read_server).optional()?;
        // In that list, only names with a scope are certain to be npm packages.
        if server.is_some() || registry != "npm" || !name.starts_with('@') {
            return Ok(server);
        }
        let mut by_name = self
            .connection
            .prepare_cached(servers!("WHERE name = ?1 AND substr(source, 1, length(?2)) = ?2"))?;
        Ok(by_name.query_row([name, BY_PACKAGE], read_server).optional()?)
    }

    /// The server with this slug.
    pub fn server_by_slug(&self, slug: &str) -> Result<Option<Server>, CatalogError> {
        let mut statement = self.connection.prepare_cached(servers!("WHERE slug = ?1"))?;
        Ok(statement.query_row([slug], read_server).optional()?)
    }

    /// Servers after this slug, in the order of their slugs.
    pub fn servers(&self, after: &str, most: u32) -> Result<Vec<Server>, CatalogError> {
        let mut statement =
            self.connection.prepare_cached(servers!("WHERE slug > ?1 ORDER BY slug LIMIT ?2"))?;
        let rows = statement.query_map(params![after, most], read_server)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The tools of a server, the worst first.
    pub fn tools(&self, server: &Server) -> Result<Vec<Tool>, CatalogError> {
        let mut statement = self
            .connection
            .prepare_cached(tools!("WHERE id >= ?1 AND id < ?2 ORDER BY category DESC, name"))?;
        let rows =
            statement.query_map(params![server.first, server.end()], |row| self.read_tool(row))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// A tool of a server, by its exact name.
    pub fn tool(&self, server: &Server, name: &str) -> Result<Option<Tool>, CatalogError> {
        let mut statement =
            self.connection.prepare_cached(tools!("WHERE id >= ?1 AND id < ?2 AND name = ?3"))?;
        let span = params![server.first, server.end(), name];
        Ok(statement.query_row(span, |row| self.read_tool(row)).optional()?)
    }

    /// Looks up `SERVER` or `SERVER/TOOL`; both names may contain slashes.
    pub fn take(&self, text: &str) -> Result<Taken, CatalogError> {
        if let Some(server) = self.server(text)? {
            return Ok(Taken::Server(server));
        }
        let mut without_tool = None;
        for (place, _) in text.match_indices('/') {
            let (name, tool) = text.split_at(place);
            let tool = tool.strip_prefix('/').unwrap_or(tool);
            let Some(server) = self.server(name)? else { continue };
            match self.tool(&server, tool)? {
                Some(tool) => return Ok(Taken::Tool(server, Box::new(tool))),
                None => without_tool = Some((server, tool.to_owned())),
            }
        }
        Ok(without_tool.map_or(Taken::Nothing, |(server, tool)| Taken::NoTool(server, tool)))
    }

    /// Tools with the same name on other servers.
    pub fn namesakes(&self, server: &Server, tool: &str) -> Result<Vec<Hit>, CatalogError> {
        Ok(elsewhere(server, self.tools_named(&words::of(tool), MOST_RELATED + 8)?))
    }

    /// Tools with the same name on other servers, or else with the same words.
    pub fn related_tools(&self, server: &Server, tool: &Tool) -> Result<Vec<Hit>, CatalogError> {
        let same = self.namesakes(server, &tool.name)?;
        if !same.is_empty() {
            return Ok(same);
        }
        Ok(elsewhere(server, self.with_words(&words::of(&tool.name), &[], 200)?))
    }

    /// Counts over the whole catalogue.
    pub fn stats(&self) -> Result<Stats, CatalogError> {
        let count = |what: &str| {
            self.connection.query_row(what, [], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))
        };
        let mut categories = Vec::new();
        for (code, category) in (0..).zip(Category::ALL) {
            let what = format!("SELECT count(*) FROM tool WHERE category = {code}");
            categories.push((category, count(&what)?));
        }
        let mut signals = Vec::new();
        for kind in SignalKind::ALL {
            let bit = Signals::of([kind]).bits();
            let what = format!("SELECT count(*) FROM tool WHERE signals & {bit}");
            signals.push((kind, count(&what)?));
        }
        Ok(Stats {
            servers: count("SELECT count(*) FROM server")?,
            imported: count("SELECT count(*) FROM server WHERE own")?,
            unknown: count("SELECT count(*) FROM server WHERE counts IS NULL")?,
            tools: categories.iter().map(|(_, tools)| tools).sum(),
            categories,
            signals,
            with_findings: count("SELECT count(*) FROM tool WHERE findings > 0")?,
            sources: self.sources()?,
        })
    }

    fn sources(&self) -> Result<Vec<(String, u64)>, CatalogError> {
        let mut statement = self.connection.prepare(
            "SELECT source, count(*) FROM server GROUP BY source ORDER BY 2 DESC, 1 LIMIT 1000",
        )?;
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn read_tool(&self, row: &Row<'_>) -> rusqlite::Result<Tool> {
        let text: String = row.get(6)?;
        Ok(Tool {
            name: row.get(4)?,
            description: row.get(5)?,
            traits: traits(row)?,
            evidence: evidence::read(&text, |id| self.phrase(id)),
        })
    }

    fn phrase(&self, id: u32) -> Option<String> {
        let mut statement = self.connection.prepare_cached("SELECT text FROM phrase WHERE id = ?1");
        statement.as_mut().ok()?.query_row([id], |row| row.get(0)).ok()
    }
}

/// The hits on other servers, up to the maximum.
fn elsewhere(server: &Server, hits: Vec<Hit>) -> Vec<Hit> {
    hits.into_iter().filter(|hit| hit.server_id != server.id).take(MOST_RELATED).collect()
}

impl Server {
    /// The row id after its last tool.
    pub(crate) fn end(&self) -> i64 {
        self.first + i64::from(self.tools().unwrap_or_default())
    }
}

pub(crate) fn read_server(row: &Row<'_>) -> rusqlite::Result<Server> {
    let counts: Option<String> = row.get(9)?;
    Ok(Server {
        id: row.get(0)?,
        first: row.get(1)?,
        slug: row.get(2)?,
        name: row.get(3)?,
        source: row.get(4)?,
        standing: if row.get(5)? { Standing::Own } else { Standing::Shipped },
        version: row.get(6)?,
        description: row.get(7)?,
        about: row.get(8)?,
        counts: counts.as_deref().map(Counts::read),
        findings: row.get(10)?,
    })
}

/// The traits in the first four columns of a row.
pub(crate) fn traits(row: &Row<'_>) -> rusqlite::Result<Traits> {
    let category = usize::from(row.get::<_, u8>(0)?);
    Ok(Traits {
        category: Category::ALL.get(category).copied().unwrap_or(Category::Other),
        confidence: row.get(1)?,
        signals: Signals::from_bits(row.get(2)?),
        findings: Findings::from_bits(row.get(3)?),
    })
}
