//! The shipped index, `catalog/index.bin`, and loading it into a catalogue.
//!
//! The file is a digest of 32 bytes, then JSON lines compressed with zlib: a header, a line of
//! phrases, a line of sources, then for each server a line `[slug, name, source]` and a line for
//! each of its tools. `build` writes it. The only third-party text in it are names.

mod build;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use sluice_classify::Category;
use sluice_wire::json::{Bounds, Document, Value};

use crate::{
    bits::{Findings, Signals},
    digest,
    entry::{Standing, Traits},
    remove, words,
    write::{NewServer, NewTool, Writer},
};

pub use build::{BuildError, build};

/// The shipped index.
static INDEX: &[u8] = include_bytes!("../../../catalog/index.bin");
/// The length of the digest before the compressed lines.
const STAMP: usize = 32;
/// The largest size of the lines in bytes.
const MOST_BYTES: usize = 64 << 20;
/// The first line.
const HEAD: &str = r#"["sluice-catalog",1]"#;

/// Why the shipped index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ShippedError {
    #[error("it is damaged")]
    Content,
    #[error(transparent)]
    Store(#[from] rusqlite::Error),
}

/// Loads the shipped index into a catalogue, unless it is already there. It replaces an older
/// shipped index, and keeps imported servers.
pub(crate) fn put(connection: &mut Connection) -> Result<(), ShippedError> {
    let stamp = INDEX.get(..STAMP).ok_or(ShippedError::Content)?;
    if is_there(connection, stamp)? {
        return Ok(());
    }
    let lines = lines()?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have loaded it meanwhile.
    if !is_there(&transaction, stamp)? {
        remove::remove_shipped(&transaction)?;
        put_lines(&transaction, &lines)?;
        transaction
            .execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('shipped', ?1)", [stamp])?;
    }
    transaction.commit()?;
    Ok(())
}

/// Adds the shipped servers that are missing.
pub(crate) fn put_missing(connection: &Connection) -> Result<(), ShippedError> {
    put_lines(connection, &lines()?)
}

fn lines() -> Result<String, ShippedError> {
    unpack(INDEX.get(STAMP..).unwrap_or_default()).ok_or(ShippedError::Content)
}

fn is_there(connection: &Connection, stamp: &[u8]) -> rusqlite::Result<bool> {
    let there: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM meta WHERE name = 'shipped'", [], |row| row.get(0))
        .optional()?;
    Ok(there.as_deref() == Some(stamp))
}

fn unpack(packed: &[u8]) -> Option<String> {
    let lines = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, MOST_BYTES).ok()?;
    String::from_utf8(lines).ok()
}

fn pack(lines: &str) -> Vec<u8> {
    let mut packed = digest::of_bytes(lines.as_bytes());
    packed.extend(miniz_oxide::deflate::compress_to_vec_zlib(lines.as_bytes(), 10));
    packed
}

fn put_lines(connection: &Connection, lines: &str) -> Result<(), ShippedError> {
    let mut lines = lines.lines();
    if lines.next() != Some(HEAD) {
        return Err(ShippedError::Content);
    }
    let phrases = texts(lines.next()).ok_or(ShippedError::Content)?;
    let sources = texts(lines.next()).ok_or(ShippedError::Content)?;
    let mut writer = Writer::new(connection, Standing::Shipped)?;
    writer.put_phrases(phrases.into_iter().map(|text| (digest::number(&text), text)))?;
    let mut waiting: Option<(String, NewServer)> = None;
    for line in lines {
        let document =
            Document::parse(line, &Bounds::default()).map_err(|_| ShippedError::Content)?;
        let read =
            read(document.root(), &sources, waiting.as_ref()).ok_or(ShippedError::Content)?;
        match (read, &mut waiting) {
            (IndexLine::Tool(tool), Some((_, server))) => {
                server.tools.get_or_insert_default().push(tool);
            }
            (IndexLine::Tool(_), None) => return Err(ShippedError::Content),
            (IndexLine::Server(slug, server), _) => {
                if let Some((slug, server)) = waiting.replace((slug, server)) {
                    put_server(connection, &mut writer, &slug, &server)?;
                }
            }
        }
    }
    if let Some((slug, server)) = waiting {
        put_server(connection, &mut writer, &slug, &server)?;
    }
    Ok(())
}

/// Adds one server, unless the user has imported one of this name.
fn put_server(
    connection: &Connection,
    writer: &mut Writer<'_>,
    slug: &str,
    server: &NewServer,
) -> rusqlite::Result<()> {
    let is_taken = |what: &str, value: &str| {
        let mut statement = connection.prepare_cached(what)?;
        Ok::<bool, rusqlite::Error>(statement.query_row([value], |_| Ok(())).optional()?.is_some())
    };
    if is_taken("SELECT 1 FROM server WHERE name = ?1", &server.name)? {
        return Ok(());
    }
    let slug_taken = is_taken("SELECT 1 FROM server WHERE slug = ?1", slug)?;
    writer.put(server, (!slug_taken).then_some(slug))
}

/// A line of a server or of a tool.
enum IndexLine {
    Server(String, NewServer),
    Tool(NewTool),
}

fn read(
    line: Value<'_>,
    sources: &[String],
    of: Option<&(String, NewServer)>,
) -> Option<IndexLine> {
    let mut fields = line.items()?;
    let first = fields.next()?;
    if let Some(mut server) = first.items() {
        let mut text = || server.next()?.as_str().map(str::to_owned);
        let (slug, name) = (text()?, text()?);
        let source = sources.get(number(server.next()?)?)?.clone();
        let (version, description, about) = (None, None, None);
        let tools = Some(Vec::new());
        return Some(IndexLine::Server(
            slug,
            NewServer { name, source, version, description, about, tools },
        ));
    }
    let name = first.as_str()?.to_owned();
    let mut next = || number(fields.next()?);
    let category = *Category::ALL.get(next()?)?;
    let confidence = u8::try_from(next()?).ok()?;
    let signals = Signals::from_bits(u32::try_from(next()?).ok()?);
    let findings = Findings::from_bits(u32::try_from(next()?).ok()?);
    let evidence = fields.next()?.raw().to_owned();
    let words = words::of_tool(&of?.1.name, &name, None, category, signals);
    let traits = Traits { category, confidence, signals, findings };
    Some(IndexLine::Tool(NewTool {
        name,
        description: None,
        traits,
        digest: None,
        evidence,
        words,
    }))
}

fn number(value: Value<'_>) -> Option<usize> {
    value.as_number()?.parse().ok()
}

fn texts(line: Option<&str>) -> Option<Vec<String>> {
    let document = Document::parse(line?, &Bounds::default()).ok()?;
    document.root().items()?.map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use sluice_testkit::Folder;

    use super::put;
    use crate::{Catalog, Query, Standing};

    #[test]
    fn a_newer_index_replaces_the_older_and_keeps_imports() {
        let folder = Folder::new().unwrap();
        let mut catalog = Catalog::open_to_write(&folder.join("catalog.db")).unwrap();
        let replaced = catalog.servers("", 1).unwrap().remove(0).name;
        let lines = format!(
            "{{\"server\": \"{replaced}\", \"tools\": [{{\"name\": \"get_wombat\"}}]}}\n\
             {{\"server\": \"own\", \"tools\": [{{\"name\": \"list_wombats\"}}]}}\n"
        );
        let file = folder.join("own.jsonl");
        std::fs::write(&file, lines).unwrap();
        catalog.import(&file, None, &mut |_| {}).unwrap();
        let before = catalog.stats().unwrap();
        // As if another version of the program had loaded the index.
        let older = "UPDATE meta SET value = x'00' WHERE name = 'shipped'";
        catalog.connection.execute(older, []).unwrap();
        put(&mut catalog.connection).unwrap();
        assert_eq!(catalog.stats().unwrap(), before);
        let server = catalog.server(&replaced).unwrap().unwrap();
        assert_eq!((server.standing, server.tools()), (Standing::Own, Some(1)));
        // The index contains each tool once.
        let query = Query { words: "wombat".into(), limit: 10, ..Query::default() };
        assert_eq!(catalog.search(&query).unwrap().tools.len(), 2);
        let indexed = "SELECT count(*) FROM tool_words('\u{e000} OR \u{e001} OR \u{e002} OR \u{e003} OR \u{e004} OR \u{e005}')";
        let indexed: i64 = catalog.connection.query_row(indexed, [], |row| row.get(0)).unwrap();
        assert_eq!(indexed.cast_unsigned(), before.tools);
    }
}
