//! Writes imported servers to the catalogue, replacing earlier entries of the same name.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Event, Imported, Problem, pieces::At, pipeline::Outcome, prepare::Prepared};
use crate::{
    digest,
    entry::{Server, Standing},
    look::{self, SERVER_BY_ID},
    remove, words,
    write::{NewServer, Writer},
};

/// The maximum numbers of tools and servers per transaction.
const MOST_TOOLS: usize = 50_000;
const MOST_SERVERS: usize = 5_000;
/// The file size in bytes from which the index is optimised after the import. During such an import
/// its segments are not merged, because the final optimisation merges them anyway.
const LARGE: u64 = 16 << 20;
/// Cache and checkpoint settings for writing, and for normal use.
const WRITING: &str = "PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 16384;";
const SERVING: &str = "PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 1000;";

/// Turns off merging of the index's segments.
const UNMERGED: &str = "
    INSERT INTO tool_words (tool_words, rank) VALUES ('automerge', 0);
    INSERT INTO tool_words (tool_words, rank) VALUES ('crisismerge', 1000);
";
/// Turns incremental merging on, which is the default; also after an import that was aborted.
const MERGED: &str = "
    INSERT INTO tool_words (tool_words, rank) VALUES ('automerge', 4);
    INSERT INTO tool_words (tool_words, rank) VALUES ('crisismerge', 16);
";
/// Merges each index into one segment, so that searches read less.
const IN_ORDER: &str = "
    INSERT INTO tool_words (tool_words) VALUES ('optimize');
    INSERT INTO server_words (server_words) VALUES ('optimize');
";

/// An imported server, and its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub server: String,
    pub before: Before,
    /// The number of its tools now; `None` if they are unknown.
    pub tools: Option<usize>,
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
}

/// The earlier entry of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Nothing,
    Shipped,
    Imported,
}

/// Writes servers as they arrive, many per transaction.
pub(super) struct Replacer<'c> {
    connection: &'c Connection,
    file: String,
    tell: &'c mut dyn FnMut(Event<'_>),
    imported: Imported,
    /// The changes of the open transaction; `None` if there is none.
    open: Option<Open>,
}

/// Uncommitted changes.
#[derive(Default)]
struct Open {
    changes: Vec<Change>,
    phrases: HashSet<&'static str>,
    tools: usize,
}

impl Drop for Replacer<'_> {
    fn drop(&mut self) {
        if self.open.is_some() {
            // This fails only if the transaction is gone already.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let _ = self.connection.execute_batch(SERVING);
    }
}

impl<'c> Replacer<'c> {
    pub(super) fn new(
        connection: &'c mut Connection,
        path: &Path,
        tell: &'c mut dyn FnMut(Event<'_>),
    ) -> rusqlite::Result<Replacer<'c>> {
        connection.execute_batch(WRITING)?;
        let (file, imported) = (path.display().to_string(), Imported::default());
        Ok(Replacer { connection, file, tell, imported, open: None })
    }

    /// Writes the result of a worker.
    pub(super) fn write(
        &mut self,
        outcomes: Vec<Outcome>,
        read: u64,
        bytes: u64,
    ) -> rusqlite::Result<()> {
        (self.imported.read, self.imported.bytes) = (read, bytes);
        for outcome in outcomes {
            match outcome.prepared {
                Ok(prepared) => {
                    prepared.problems.iter().for_each(|problem| self.complain(outcome.at, problem));
                    self.put(prepared)?;
                }
                Err(problem) => self.complain(outcome.at, &problem),
            }
        }
        let is_full = |open: &Open| open.tools >= MOST_TOOLS || open.changes.len() >= MOST_SERVERS;
        if self.open.as_ref().is_some_and(is_full) {
            self.commit()?;
        }
        let waiting = self.open.as_ref().map_or(0, |open| open.tools as u64);
        let so_far = Imported { tools: self.imported.tools + waiting, ..self.imported };
        (self.tell)(Event::Progress(&so_far));
        Ok(())
    }

    /// Commits the remaining changes, and optimises the index after a large import.
    pub(super) fn end(mut self) -> rusqlite::Result<Imported> {
        self.commit()?;
        self.connection.execute_batch(MERGED)?;
        if self.imported.bytes >= LARGE {
            self.connection.execute_batch(IN_ORDER)?;
        }
        Ok(self.imported)
    }

    fn put(&mut self, prepared: Prepared) -> rusqlite::Result<()> {
        self.imported.older += prepared.older;
        if self.open.is_none() {
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
            self.open = Some(Open::default());
            if self.imported.bytes >= LARGE {
                self.connection.execute_batch(UNMERGED)?;
            }
        }
        let open = self.open.get_or_insert_default();
        open.phrases.extend(prepared.phrases);
        let mut writer = Writer::new(self.connection, Standing::Own)?;
        for server in &prepared.servers {
            let change = replace(self.connection, &mut writer, server)?;
            open.tools += server.tools.as_ref().map_or(0, Vec::len);
            open.changes.push(change);
        }
        Ok(())
    }

    fn commit(&mut self) -> rusqlite::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let writer = Writer::new(self.connection, Standing::Own)?;
        let phrases = open.phrases.drain().map(|text| (digest::number(text), text.to_owned()));
        writer.put_phrases(phrases)?;
        self.connection.execute_batch("COMMIT")?;
        for change in self.open.take().map(|open| open.changes).unwrap_or_default() {
            self.imported.servers += 1;
            self.imported.new += u64::from(change.before == Before::Nothing);
            self.imported.tools += change.tools.map_or(0, |tools| tools as u64);
            (self.tell)(Event::Changed(&change));
        }
        Ok(())
    }

    fn complain(&mut self, at: At, problem: &str) {
        self.imported.problems += 1;
        let problem = Problem { file: self.file.clone(), at, message: problem.to_owned() };
        (self.tell)(Event::Problem(&problem));
    }
}

/// Writes one server, and replaces the one of the same name if there is one.
fn replace(
    connection: &Connection,
    writer: &mut Writer<'_>,
    server: &NewServer,
) -> rusqlite::Result<Change> {
    let mut change = Change {
        server: server.name.clone(),
        before: Before::Nothing,
        tools: server.tools.as_ref().map(Vec::len),
        added: Vec::new(),
        removed: Vec::new(),
        changed: Vec::new(),
    };
    let Some(there) = server_by_name(connection, &server.name)? else {
        writer.put(server, None)?;
        return Ok(change);
    };
    change.before = match there.standing {
        Standing::Own => Before::Imported,
        Standing::Shipped => Before::Shipped,
    };
    let Some(tools) = &server.tools else {
        describe(connection, &there, server)?;
        change.tools = there.tools().map(|tools| tools as usize);
        return Ok(change);
    };
    let mut old = digests(connection, &there)?;
    for tool in tools {
        match old.remove(&tool.name) {
            None => change.added.push(tool.name.clone()),
            Some(digest) if digest.is_some() && digest != tool.digest => {
                change.changed.push(tool.name.clone());
            }
            Some(_) => {}
        }
    }
    change.removed = old.into_keys().collect();
    // The registry's data about the server is kept.
    let mut server = server.clone();
    server.version = server.version.or(there.version);
    server.description = server.description.or(there.description);
    server.about = server.about.or(there.about);
    remove::server(connection, there.id)?;
    writer.put(&server, Some(&there.slug))?;
    Ok(change)
}

fn server_by_name(connection: &Connection, name: &str) -> rusqlite::Result<Option<Server>> {
    let mut statement = connection.prepare_cached("SELECT id FROM server WHERE name = ?1")?;
    let Some(id) = statement.query_row([name], |row| row.get::<_, i64>(0)).optional()? else {
        return Ok(None);
    };
    connection.prepare_cached(SERVER_BY_ID)?.query_row([id], look::read_server).map(Some)
}

/// Stores a registry's data about a server, and keeps the tools that are known.
fn describe(connection: &Connection, there: &Server, said: &NewServer) -> rusqlite::Result<()> {
    let words = |description: Option<&str>| words::of_server(&there.name, description);
    // Missing fields keep their values.
    let version = said.version.as_ref().or(there.version.as_ref());
    let description = said.description.as_ref().or(there.description.as_ref());
    let about = said.about.as_ref().or(there.about.as_ref());
    connection.execute(
        "INSERT INTO server_words (server_words, rowid, text) VALUES ('delete', ?1, ?2)",
        params![there.id, words(there.description.as_deref())],
    )?;
    connection.execute(
        "UPDATE server SET own = 1, version = ?2, description = ?3, about = ?4 WHERE id = ?1",
        params![there.id, version, description, about],
    )?;
    connection.execute(
        "INSERT INTO server_words (rowid, text) VALUES (?1, ?2)",
        params![there.id, words(description.map(String::as_str))],
    )?;
    Ok(())
}

/// The names of a server's tools, with the digests of their definitions.
fn digests(
    connection: &Connection,
    server: &Server,
) -> rusqlite::Result<BTreeMap<String, Option<i64>>> {
    let mut statement =
        connection.prepare_cached("SELECT name, digest FROM tool WHERE id >= ?1 AND id < ?2")?;
    let rows = statement
        .query_map(params![server.first, server.end()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}
