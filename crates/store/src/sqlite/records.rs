//! Records as rows: each has one row in `records`, and shares a row in `facets`, a
//! dictionary of the values that many records have in common.
//!
//! The exported text is not stored: it is rebuilt from the columns, and the row's hash
//! proves that it is the same.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, ToSql};
use sluice_policy::Timestamp;

use crate::{
    actor::Actor,
    chain::{Anchor, ChainEnd, ChainKey, Hash, push_link},
    digest::sha256,
    id::{Id, IdText},
    log::{Cursor, Entry},
    record::{GrantRef, Kind, Outcome, PolicyRef, Record, UpstreamRef, push_keys},
};

/// Inserts a record, in the order of the columns in `schema`. The cache of statements copies and
/// hashes this text for each record, so it has no names.
const INSERT: &str = "INSERT INTO records VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
/// Facets whose numbers are cached; above that, the cache is cleared.
const MOST_FACETS: usize = 8_192;

/// A record that is ready to be written. Its caller builds the text, so that the
/// committing thread has less to do.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) record: Box<Record>,
    text: String,
    /// The length of the text in bytes before it is chained.
    length: usize,
    arg_keys: Option<String>,
}

impl Prepared {
    pub(super) fn new(record: Box<Record>) -> Prepared {
        let text = record.text();
        let arg_keys = keys_column(&record);
        Prepared { record, length: text.len(), text, arg_keys }
    }

    /// The length of its text in bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The columns of the dictionary row (facet) that it shares with other records.
    fn facet(&self) -> [Option<&str>; 12] {
        let Record { server, grant, principal, method, tool, outcome, rule, policy, .. } =
            &*self.record;
        [
            Some(self.record.kind.as_str()),
            server.as_deref(),
            grant.as_ref().map(|grant| &*grant.id),
            grant.as_ref().map(|grant| &*grant.label),
            principal.as_deref(),
            method.as_deref(),
            tool.as_deref(),
            outcome.map(Outcome::as_str),
            rule.as_deref(),
            policy.as_ref().map(|policy| &*policy.name),
            policy.as_ref().map(|policy| &*policy.version),
            self.arg_keys.as_deref(),
        ]
    }

    /// Links the record to the chain and inserts its row, with the charges of its
    /// reservation; returns the new end of the chain.
    pub(super) fn insert(
        &mut self,
        connection: &Connection,
        link: &Link<'_>,
        facet: i64,
        charges: Option<&str>,
    ) -> rusqlite::Result<ChainEnd> {
        // A failed transaction may have chained it before.
        self.text.truncate(self.length);
        push_link(&mut self.text, link.writer, &link.before.hash);
        let hash = link.key.hash(&self.text, charges);
        let end = ChainEnd { seq: link.before.seq + 1, hash };
        let record = &self.record;
        let mut row = NewRow(connection.prepare_cached(INSERT)?);
        row.bind(1, Some(end.seq))?;
        row.bind(2, Some(record.at.as_millis()))?;
        row.bind(3, Some(facet))?;
        row.bind(4, Some(record.id.text().as_str()))?;
        row.bind(5, record.request.map(Id::text).as_ref().map(IdText::as_str))?;
        row.bind(6, record.session.as_deref())?;
        row.bind(7, record.micros.map(whole))?;
        if let Some(UpstreamRef { status, is_error, micros }) = record.upstream {
            row.bind(8, status)?;
            row.bind(9, is_error)?;
            row.bind(10, Some(whole(micros)))?;
        }
        row.bind(11, record.arg_digest)?;
        row.bind(12, Some(link.number))?;
        row.bind(13, Some(end.hash))?;
        row.bind(14, record.message.as_deref())?;
        row.bind(15, record.target.as_deref())?;
        row.bind(16, record.approval.as_deref())?;
        if let Some(Actor { id, label, address }) = &record.actor {
            row.bind(17, Some(&**id))?;
            row.bind(18, Some(&**label))?;
            row.bind(19, address.as_deref())?;
        }
        row.bind(20, record.arg_values.as_deref())?;
        row.bind(21, record.anchor.as_ref().map(Anchor::text))?;
        row.bind(22, charges)?;
        row.0.raw_execute()?;
        Ok(end)
    }
}

/// A row to insert. Columns that are not bound are null, as most columns of most records are.
struct NewRow<'c>(CachedStatement<'c>);

impl NewRow<'_> {
    fn bind(&mut self, column: usize, value: Option<impl ToSql>) -> rusqlite::Result<()> {
        value.map_or(Ok(()), |value| self.0.raw_bind_parameter(column, value))
    }
}

/// Where a record is appended.
pub(super) struct Link<'l> {
    pub(super) key: &'l ChainKey,
    pub(super) writer: &'l str,
    /// The number of the writer.
    pub(super) number: i64,
    pub(super) before: ChainEnd,
}

/// The names of a record's arguments, as the facet stores them.
fn keys_column(record: &Record) -> Option<String> {
    if record.kind != Kind::Decision && record.arg_keys.is_empty() {
        return None;
    }
    let mut keys = String::new();
    push_keys(&mut keys, &record.arg_keys);
    Some(keys)
}

/// A number as records write it: capped at the largest integer that SQLite stores.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The cached numbers of facets.
#[derive(Debug, Default)]
pub(super) struct Facets {
    known: HashMap<Box<[u8]>, i64>,
    /// A buffer for building keys.
    key: Vec<u8>,
}

impl Facets {
    /// The number of a record's facet, which is inserted if it is new.
    pub(super) fn number(
        &mut self,
        connection: &Connection,
        prepared: &Prepared,
    ) -> rusqlite::Result<i64> {
        let facet = prepared.facet();
        self.key.clear();
        for part in facet {
            // Lengths keep the parts apart; no part is as long as `usize::MAX`.
            self.key.extend(part.map_or(usize::MAX, str::len).to_le_bytes());
            self.key.extend(part.unwrap_or_default().as_bytes());
        }
        if let Some(number) = self.known.get(self.key.as_slice()) {
            return Ok(*number);
        }
        let number = find_or_insert(connection, &self.key, facet)?;
        if self.known.len() >= MOST_FACETS {
            self.known.clear();
        }
        self.known.insert(self.key.as_slice().into(), number);
        Ok(number)
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

fn find_or_insert(
    connection: &Connection,
    key: &[u8],
    facet: [Option<&str>; 12],
) -> rusqlite::Result<i64> {
    let digest = sha256(key);
    let digest = digest.first_chunk::<16>().copied().unwrap_or_default();
    let find = "SELECT id FROM facets WHERE digest = ?1";
    let found =
        connection.prepare_cached(find)?.query_row([digest], |row| row.get(0)).optional()?;
    if let Some(number) = found {
        return Ok(number);
    }
    let mut statement = connection.prepare_cached(
        "INSERT INTO facets (digest, kind, server, grant_id, grant_label, principal, method, tool,
            outcome, rule, policy, policy_version, arg_keys)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    statement.raw_bind_parameter(1, digest)?;
    for (index, part) in (2_usize..).zip(facet) {
        statement.raw_bind_parameter(index, part)?;
    }
    statement.raw_execute()?;
    Ok(connection.last_insert_rowid())
}

/// The columns that [`read_entry`] reads, of `records r`, `facets f` and `chains c`.
pub(super) const SELECT: &str = "SELECT r.seq, r.id, r.at, r.request, r.session, r.micros,
    r.upstream_status, r.upstream_is_error, r.upstream_micros, r.arg_digest,
    coalesce((SELECT p.hash FROM records p WHERE p.seq = r.seq - 1),
        (SELECT m.value FROM meta m WHERE m.name = 'pruned_hash')), r.hash, r.message,
    r.target, r.approval, r.actor_id, r.actor_label, r.actor_address, r.arg_values, r.anchor, c.writer,
    f.kind, f.server, f.grant_id, f.grant_label, f.principal, f.method, f.tool, f.outcome, f.rule,
    f.policy, f.policy_version, f.arg_keys, r.facet, r.chain, r.charges
    FROM records r LEFT JOIN facets f ON f.id = r.facet LEFT JOIN chains c ON c.id = r.chain";

/// Reads the record in a row of [`SELECT`]; an error if it is not as it was written.
/// Columns that do not appear in the record's text must be as they were written too.
pub(super) fn read_entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let text = |column: usize| row.get::<_, Option<Arc<str>>>(column);
    let at = Timestamp::from_millis(row.get(2)?);
    let kind = parse_name(Kind::from_name, row.get_ref(21)?.as_str()?)?;
    let outcome = text(28)?.map(|name| parse_name(Outcome::from_name, &name)).transpose()?;
    let record = Record {
        request: text(3)?.map(|request| parse_name(Id::read, &request)).transpose()?,
        server: text(22)?,
        grant: pair(row, 23)?.map(|(id, label)| GrantRef { id, label }),
        principal: text(25)?,
        session: text(4)?,
        method: row.get::<_, Option<String>>(26)?.map(Into::into),
        tool: text(27)?,
        outcome,
        target: row.get(13)?,
        actor: actor(row)?,
        approval: text(14)?,
        rule: text(29)?,
        message: row.get(12)?,
        policy: pair(row, 30)?.map(|(name, version)| PolicyRef { name, version }),
        arg_keys: text(32)?.map(|keys| json(&keys)).transpose()?.unwrap_or_default(),
        arg_digest: row.get(9)?,
        arg_values: row.get(18)?,
        upstream: upstream(row)?,
        micros: count(row, 5)?,
        anchor: text(19)?.map(|anchor| json(&anchor)).transpose()?,
        ..Record::new(parse_name(Id::read, row.get_ref(1)?.as_str()?)?, at, kind)
    };
    let is_canonical = keys_column(&record).as_deref() == text(32)?.as_deref()
        && record.anchor.as_ref().map(Anchor::text).as_deref() == text(19)?.as_deref();
    if !is_canonical {
        return Err(unreadable("this is not how it was written".into()));
    }
    let (prev, hash): (Hash, Hash) = (row.get(10)?, row.get(11)?);
    let (cursor, writer, charges) = (Cursor(row.get(0)?), row.get(20)?, text(35)?);
    Ok(Entry { cursor, record, writer, charges, prev, hash })
}

/// Two columns that are either both set or both null.
fn pair(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<(Arc<str>, Arc<str>)>> {
    match (row.get(first)?, row.get(first + 1)?) {
        (Some(one), Some(other)) => Ok(Some((one, other))),
        (None, None) => Ok(None),
        _ => Err(unreadable("one of two columns is missing".into())),
    }
}

fn actor(row: &Row<'_>) -> rusqlite::Result<Option<Actor>> {
    match (pair(row, 15)?, row.get(17)?) {
        (Some((id, label)), address) => Ok(Some(Actor { id, label, address })),
        (None, None) => Ok(None),
        (None, Some::<Arc<str>>(_)) => Err(unreadable("an address without an actor".into())),
    }
}

fn upstream(row: &Row<'_>) -> rusqlite::Result<Option<UpstreamRef>> {
    let is_error = match row.get::<_, Option<i64>>(7)? {
        None => None,
        Some(0) => Some(false),
        Some(1) => Some(true),
        Some(_) => return Err(unreadable("neither true nor false".into())),
    };
    match (count(row, 8)?, row.get(6)?, is_error) {
        (Some(micros), status, is_error) => Ok(Some(UpstreamRef { status, is_error, micros })),
        (None, None, None) => Ok(None),
        _ => Err(unreadable("an answer without its time".into())),
    }
}

/// A number that must not be negative.
fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    let number = row.get::<_, Option<i64>>(column)?.map(u64::try_from).transpose();
    number.map_err(|error| unreadable(error.into()))
}

/// Parses a value from its name; an error if the name is unknown.
fn parse_name<T>(read: impl FnOnce(&str) -> Option<T>, text: &str) -> rusqlite::Result<T> {
    read(text).ok_or_else(|| unreadable(format!("`{text}` is not known").into()))
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| unreadable(error.into()))
}

fn unreadable(error: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error)
}
