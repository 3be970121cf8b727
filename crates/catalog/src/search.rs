//! Search, with bounded work for any query.
//!
//! A common word occurs in a third of all tools, and ranking all matches would be
//! slow. So the index returns the first matches, imported before shipped, and only
//! these are ranked; tools whose whole name matches the query are looked up in addition.

use std::fmt::Write as _;

use rusqlite::{Row, params_from_iter};
use sluice_classify::{Category, Risk, SignalKind};

use crate::{
    bits::Signals,
    catalog::{Catalog, CatalogError},
    entry::{Server, Traits},
    look::{SERVER_BY_ID, read_server, traits},
    words,
};

/// The number of tools that are ranked.
const CANDIDATES: usize = 500;
/// The number of servers that are ranked.
const SERVER_CANDIDATES: usize = 300;
/// The maximum number of tools whose whole name matches.
const MOST_NAMED: usize = 100;
/// The maximum number of words in a query; more would not make it clearer.
const MOST_WORDS: usize = 16;
/// The maximum number of results in one answer.
const MOST_RESULTS: usize = 500;

/// A search query. All conditions must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Any text; it is split into words.
    pub words: String,
    /// One of these categories, if any are given.
    pub categories: Vec<Category>,
    /// One of these risks, if any are given.
    pub risks: Vec<Risk>,
    pub signals: Vec<SignalKind>,
    /// The number of results to skip.
    pub offset: usize,
    /// The maximum number of servers, and of tools.
    pub limit: usize,
}

/// The matches, the best first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchResults {
    /// Servers with the words in their name or description. Empty if the query has categories,
    /// risks or signals, which only tools have.
    pub servers: Vec<Server>,
    pub tools: Vec<Hit>,
    /// Whether there are more matches than are returned.
    pub more: bool,
}

/// A matching tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub(crate) id: i64,
    pub(crate) server_id: i64,
    /// Its server's name and slug.
    pub server: String,
    pub slug: String,
    pub tool: String,
    pub traits: Traits,
}

impl Query {
    /// The categories that match the query, directly or by their risk.
    fn matching_categories(&self) -> Vec<Category> {
        let fits = |category: &Category| {
            (self.categories.is_empty() || self.categories.contains(category))
                && (self.risks.is_empty() || self.risks.contains(&Risk::from(*category)))
        };
        Category::ALL.into_iter().filter(fits).collect()
    }

    fn is_about_tools(&self) -> bool {
        !(self.categories.is_empty() && self.risks.is_empty() && self.signals.is_empty())
    }

    /// Index words for categories and signals that must match too.
    fn marks(&self) -> Vec<String> {
        let mut marks = Vec::new();
        if !(self.categories.is_empty() && self.risks.is_empty()) {
            let wanted: Vec<String> = self
                .matching_categories()
                .into_iter()
                .map(|category| format!("\"{}\"", words::category_mark(category)))
                .collect();
            marks.push(format!("({})", wanted.join(" OR ")));
        }
        marks.extend(self.signals.iter().map(|kind| format!("\"{}\"", words::signal_mark(*kind))));
        marks
    }
}

impl Catalog {
    /// Runs a query.
    pub fn search(&self, query: &Query) -> Result<SearchResults, CatalogError> {
        let mut asked = words::of(&query.words);
        asked.truncate(MOST_WORDS);
        if query.matching_categories().is_empty() {
            return Ok(SearchResults::default());
        }
        let nothing_asked = asked.is_empty() && !query.words.trim().is_empty();
        if nothing_asked {
            // A text without letters and digits matches no name.
            return Ok(SearchResults::default());
        }
        let mut tools = self.with_words(&asked, &query.marks(), CANDIDATES)?;
        let signals = Signals::of(query.signals.iter().copied());
        let fits = |hit: &Hit| {
            let has = hit.traits.signals.bits() & signals.bits() == signals.bits();
            has && query.matching_categories().contains(&hit.traits.category)
        };
        tools.extend(self.tools_named(&asked, MOST_NAMED)?.into_iter().filter(fits));
        rank(&mut tools, &asked);
        let limit = query.limit.clamp(1, MOST_RESULTS);
        let servers = if query.is_about_tools() { Vec::new() } else { self.servers_with(&asked)? };
        let end = query.offset.saturating_add(limit);
        Ok(SearchResults {
            more: tools.len() > end || servers.len() > end,
            servers: servers.into_iter().skip(query.offset).take(limit).collect(),
            tools: tools.into_iter().skip(query.offset).take(limit).collect(),
        })
    }

    /// The first tools that match all words and marks.
    pub(crate) fn with_words(
        &self,
        words: &[String],
        marks: &[String],
        most: usize,
    ) -> Result<Vec<Hit>, CatalogError> {
        let asked = index_query(words, marks);
        if asked.is_empty() {
            let rest = format!("ORDER BY tool.id LIMIT {most}");
            return self.hits(&rest, &[]);
        }
        let rest = format!(
            "WHERE tool.id IN (SELECT rowid FROM tool_words WHERE tool_words MATCH ?1 LIMIT {most})"
        );
        self.hits(&rest, &[asked])
    }

    /// Tools whose name consists of exactly these words, however they are joined.
    pub(crate) fn tools_named(
        &self,
        words: &[String],
        most: usize,
    ) -> Result<Vec<Hit>, CatalogError> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        self.with_words(&[words::whole_name(words)], &[], most)
    }

    fn hits(&self, rest: &str, values: &[String]) -> Result<Vec<Hit>, CatalogError> {
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT tool.category, tool.confidence, tool.signals, tool.findings, tool.id, tool.server,
                    server.name, server.slug, tool.name
             FROM tool CROSS JOIN server ON server.id = tool.server {rest}"
        ))?;
        let rows = statement.query_map(params_from_iter(values), hit)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn servers_with(&self, words: &[String]) -> Result<Vec<Server>, CatalogError> {
        if words.is_empty() {
            return self.servers("", u32::try_from(MOST_RESULTS).unwrap_or(u32::MAX));
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT rowid FROM server_words WHERE server_words MATCH ?1 LIMIT ?2",
        )?;
        let most = i64::try_from(SERVER_CANDIDATES).unwrap_or(i64::MAX);
        let ids =
            statement.query_map((index_query(words, &[]), most), |row| row.get::<_, i64>(0))?;
        let mut by_id = self.connection.prepare_cached(SERVER_BY_ID)?;
        let mut found = Vec::new();
        for id in ids {
            found.push(by_id.query_row([id?], read_server)?);
        }
        found.sort_by_cached_key(|server| {
            let closeness = closeness(&server.name, words);
            (std::cmp::Reverse(closeness), std::cmp::Reverse(server.tools()), server.name.clone())
        });
        Ok(found)
    }
}

fn hit(row: &Row<'_>) -> rusqlite::Result<Hit> {
    Ok(Hit {
        traits: traits(row)?,
        id: row.get(4)?,
        server_id: row.get(5)?,
        server: row.get(6)?,
        slug: row.get(7)?,
        tool: row.get(8)?,
    })
}

/// The full-text query. Words consist of letters and digits, so they contain no quotation mark and
/// no operator.
fn index_query(words: &[String], marks: &[String]) -> String {
    let mut asked = String::new();
    for word in words {
        // Writing to a string cannot fail.
        let _ = write!(asked, "{}\"{word}\"", if asked.is_empty() { "" } else { " AND " });
    }
    for mark in marks {
        let _ = write!(asked, "{}{mark}", if asked.is_empty() { "" } else { " AND " });
    }
    asked
}

/// Sorts the best first, and removes duplicates.
fn rank(tools: &mut Vec<Hit>, words: &[String]) {
    tools.sort_by_cached_key(|hit| {
        let closeness = closeness(&hit.tool, words);
        (std::cmp::Reverse((closeness, hit.traits.category)), hit.id)
    });
    tools.dedup_by_key(|hit| hit.id);
}

/// The similarity of a name to the words, in thousandths: the share of each that is contained in
/// the other.
fn closeness(name: &str, words: &[String]) -> usize {
    let own = words::of(name);
    let is_in = |word: &&String| own.iter().any(|other| other == *word);
    let shared = words.iter().filter(is_in).count();
    let begins = usize::from(!own.is_empty() && own.first() == words.first());
    shared * 2_000 / (own.len() + words.len()).max(1) + begins
}
