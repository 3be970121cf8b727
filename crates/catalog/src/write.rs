//! Writes a server and its tools to the tables and the full-text index.

use rusqlite::{Connection, OptionalExtension as _, params};
use sluice_classify::Category;

use crate::{
    bits::code,
    entry::{Counts, Standing, Traits},
    layout::SHIPPED,
    slug, words,
};

/// A server to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewServer {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) about: Option<String>,
    /// `None` if its tools are unknown.
    pub(crate) tools: Option<Vec<NewTool>>,
}

/// A tool to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewTool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) traits: Traits,
    pub(crate) digest: Option<i64>,
    pub(crate) evidence: String,
    /// Its words in the full-text index.
    pub(crate) words: String,
}

/// Writes servers within the caller's transaction.
#[derive(Debug)]
pub(crate) struct Writer<'c> {
    connection: &'c Connection,
    standing: Standing,
    next_server: i64,
    next_tool: i64,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(
        connection: &'c Connection,
        standing: Standing,
    ) -> rusqlite::Result<Writer<'c>> {
        let (from, below) = match standing {
            Standing::Own => (0, SHIPPED),
            Standing::Shipped => (SHIPPED, i64::MAX),
        };
        let next = |last: &str| {
            let mut statement = connection.prepare_cached(last)?;
            let last: Option<i64> = statement.query_row(params![from, below], |row| row.get(0))?;
            Ok::<i64, rusqlite::Error>(last.unwrap_or(from) + 1)
        };
        let next_server = next("SELECT max(id) FROM server WHERE id >= ?1 AND id < ?2")?;
        let next_tool = next("SELECT max(id) FROM tool WHERE id >= ?1 AND id < ?2")?;
        Ok(Writer { connection, standing, next_server, next_tool })
    }

    /// Writes a server under a free slug. Its name must not exist yet.
    pub(crate) fn put(&mut self, server: &NewServer, slug: Option<&str>) -> rusqlite::Result<()> {
        let slug = match slug {
            Some(slug) => slug.to_owned(),
            None => self.free_slug(&server.name)?,
        };
        let (id, first) = (self.next_server, self.next_tool);
        self.next_server += 1;
        let mut counts = Counts::default();
        let mut findings = 0;
        for tool in server.tools.iter().flatten() {
            counts.add(tool.traits.category);
            findings += tool.traits.findings.total();
            self.put_tool(id, tool)?;
        }
        let known = server.tools.as_ref().map(|_| counts);
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO server (id, slug, name, source, own, version, description, about, first, counts, findings)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        statement.execute(params![
            id,
            slug,
            server.name,
            server.source,
            self.standing == Standing::Own,
            server.version,
            server.description,
            server.about,
            first,
            known.map(Counts::text),
            findings,
        ])?;
        let text = words::of_server(&server.name, server.description.as_deref());
        let mut statement = self
            .connection
            .prepare_cached("INSERT INTO server_words (rowid, text) VALUES (?1, ?2)")?;
        statement.execute(params![id, text])?;
        Ok(())
    }

    fn put_tool(&mut self, server: i64, tool: &NewTool) -> rusqlite::Result<()> {
        let id = self.next_tool;
        self.next_tool += 1;
        let Traits { category, confidence, signals, findings } = tool.traits;
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO tool (id, server, name, category, confidence, signals, findings, digest, description, evidence)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        statement.execute(params![
            id,
            server,
            tool.name,
            code(&Category::ALL, &category),
            confidence,
            signals.bits(),
            findings.bits(),
            tool.digest,
            tool.description,
            tool.evidence,
        ])?;
        let mut statement = self
            .connection
            .prepare_cached("INSERT INTO tool_words (rowid, text) VALUES (?1, ?2)")?;
        statement.execute(params![id, tool.words])?;
        Ok(())
    }

    fn free_slug(&self, name: &str) -> rusqlite::Result<String> {
        let mut statement =
            self.connection.prepare_cached("SELECT 1 FROM server WHERE slug = ?1")?;
        let mut failed = None;
        let mut is_taken = |slug: &str| {
            let row = statement.query_row([slug], |_| Ok(())).optional();
            row.map_or_else(
                |error| {
                    failed = Some(error);
                    false
                },
                |row| row.is_some(),
            )
        };
        let slug = slug::free(name, &mut is_taken);
        failed.map_or(Ok(slug), Err)
    }

    /// Stores the phrases that evidence refers to.
    pub(crate) fn put_phrases(
        &self,
        phrases: impl IntoIterator<Item = (u32, String)>,
    ) -> rusqlite::Result<()> {
        let mut statement = self
            .connection
            .prepare_cached("INSERT OR IGNORE INTO phrase (id, text) VALUES (?1, ?2)")?;
        for (id, text) in phrases {
            statement.execute(params![id, text])?;
        }
        Ok(())
    }
}
