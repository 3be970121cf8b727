//! "Did you mean" suggestions for unknown names.

use crate::{
    catalog::{Catalog, CatalogError},
    entry::Server,
    search::Query,
};

/// The number of suggestions.
const MOST: usize = 3;
/// The similarity, from 0 to 1, from which a name is suggested.
const ALIKE: f64 = 0.82;

impl Catalog {
    /// Servers with a similar name.
    pub fn near_servers(&self, name: &str) -> Result<Vec<String>, CatalogError> {
        if !name.contains(char::is_alphanumeric) {
            // An empty query would match everything.
            return Ok(Vec::new());
        }
        let query = Query { words: name.to_owned(), limit: MOST, ..Query::default() };
        let found = self.search(&query)?.servers;
        if !found.is_empty() {
            return Ok(found.into_iter().take(MOST).map(|server| server.name).collect());
        }
        let mut statement = self.connection.prepare_cached("SELECT name FROM server")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        Ok(nearest(name, names.collect::<rusqlite::Result<Vec<String>>>()?))
    }

    /// Tools of a server with a similar name.
    pub fn near_tools(&self, server: &Server, name: &str) -> Result<Vec<String>, CatalogError> {
        let names = self.tools(server)?.into_iter().map(|tool| tool.name);
        Ok(nearest(name, names))
    }
}

fn nearest(name: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let plain = plain(name);
    let alike = |other: &str| strsim::jaro_winkler(&plain, &self::plain(other));
    let mut near: Vec<(f64, String)> =
        names.into_iter().map(|other| (alike(&other), other)).collect();
    near.retain(|(alike, _)| *alike >= ALIKE);
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Normalises a name for comparison. Long names are cut, because comparing takes quadratic time.
fn plain(name: &str) -> String {
    name.chars().take(64).flat_map(char::to_lowercase).collect()
}
