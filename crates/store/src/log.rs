//! The audit log: large, append-only, chained, read page by page.

use std::{fmt, str::FromStr, sync::Arc};

use sluice_policy::Timestamp;

use crate::{
    StoreError,
    chain::{self, ChainKey, Hash, Verified},
    id::Id,
    log_space::Retention,
    memory::Memory,
    record::{Kind, Outcome, Record},
    sqlite::Sqlite,
    store::Store,
};

/// How long after its request an outcome may come and still be found by the request id,
/// in milliseconds.
const LONGEST_REQUEST: i64 = 24 * 3_600_000;

/// Begins the text of a cursor, so that no sequence number is taken for one.
const CURSOR_MARK: &str = "log-";

/// The back-end for the records.
#[derive(Debug, Clone)]
pub(crate) enum Log {
    Memory(Arc<Memory>),
    Sqlite(Arc<Sqlite>),
}

/// A position in the log. Opaque: positions of one log can be compared, and only the store
/// reads and writes their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub(crate) i64);

impl Cursor {
    /// The position before every record.
    pub const START: Cursor = Cursor(0);
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CURSOR_MARK}{:x}", self.0)
    }
}

/// The text is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor that the log has given out")]
pub struct CursorError;

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Cursor, CursorError> {
        let digits = text.strip_prefix(CURSOR_MARK).ok_or(CursorError)?;
        let number = i64::from_str_radix(digits, 16).map_err(|_| CursorError)?;
        // Only the text that was given out, so no sign, leading zero or capital letter.
        Some(Cursor(number)).filter(|cursor| cursor.to_string() == text).ok_or(CursorError)
    }
}

/// Which records to read. A field that is `None` matches every record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// At this time or later.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    pub server: Option<String>,
    /// A grant's id or label.
    pub grant: Option<String>,
    pub tool: Option<String>,
    pub outcome: Option<Outcome>,
    pub kind: Option<Kind>,
    pub principal: Option<String>,
    pub rule: Option<String>,
    pub session: Option<String>,
    /// Records of these requests, made within a day of them; of all if it is empty.
    pub requests: Vec<Id>,
    /// After this position.
    pub after: Option<Cursor>,
    /// Before this position.
    pub before: Option<Cursor>,
    /// Newest first; otherwise oldest first.
    pub newest_first: bool,
}

impl Filter {
    /// The time span to search: the requested span, narrowed by the times in the request ids.
    pub(crate) fn span(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let made = || self.requests.iter().map(|request| request.at());
        let end = made()
            .max()
            .map(|last| Timestamp::from_millis(last.as_millis().saturating_add(LONGEST_REQUEST)));
        (self.since.max(made().min()), [self.until, end].into_iter().flatten().min())
    }

    /// The first and the last sequence number to look at.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        let first = self.after.map_or(0, |after| after.0.saturating_add(1));
        (first, self.before.map_or(i64::MAX, |before| before.0.saturating_sub(1)))
    }

    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        let (record, (first, last), (since, until)) = (&entry.record, self.bounds(), self.span());
        let fits = |wanted: &Option<String>, value: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == value
        };
        let grant = record.grant.as_ref();
        (first..=last).contains(&entry.cursor.0)
            && since.is_none_or(|since| record.at >= since)
            && until.is_none_or(|until| record.at < until)
            && self.kind.is_none_or(|kind| record.kind == kind)
            && self.outcome.is_none_or(|outcome| record.outcome == Some(outcome))
            && (self.requests.is_empty()
                || record.request.is_some_and(|request| self.requests.contains(&request)))
            && fits(&self.rule, record.rule.as_deref())
            && fits(&self.session, record.session.as_deref())
            && fits(&self.server, record.server.as_deref())
            && fits(&self.tool, record.tool.as_deref())
            && fits(&self.principal, record.principal.as_deref())
            && (self.grant.is_none()
                || grant.is_some_and(|grant| {
                    fits(&self.grant, Some(&grant.id)) || fits(&self.grant, Some(&grant.label))
                }))
    }
}

/// A record in the log, with its links in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub cursor: Cursor,
    pub record: Record,
    /// The process that wrote it.
    pub(crate) writer: Arc<str>,
    /// The charges of its reservation, as they are stored. They are not exported.
    pub(crate) charges: Option<Arc<str>>,
    /// The hash of its predecessor.
    pub(crate) prev: Hash,
    pub(crate) hash: Hash,
}

impl Entry {
    /// The record as it is exported: one line of JSON, without the line break. Its hash
    /// covers this text up to the member `hash`.
    pub fn text(&self) -> String {
        let mut text = self.record.text();
        chain::push_link(&mut text, &self.writer, &self.prev);
        chain::close(&mut text, &self.hash);
        text
    }

    /// Whether its hash matches its text and charges.
    pub(crate) fn is_intact(&self, key: &ChainKey) -> bool {
        let mut text = self.record.text();
        chain::push_link(&mut text, &self.writer, &self.prev);
        key.hash(&text, self.charges.as_deref()) == self.hash
    }
}

/// A page of records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// The position of the last one, if more follow.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page of at most `limit` entries; one more was queried to know whether there are
    /// more.
    pub(crate) fn of(mut entries: Vec<Entry>, limit: usize) -> Page {
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| has_more).map(|entry| entry.cursor);
        Page { entries, next }
    }
}

impl Store {
    /// At most `limit` records that match a filter.
    pub async fn page(&self, filter: &Filter, limit: usize) -> Result<Page, StoreError> {
        match &self.log {
            Log::Memory(memory) => Ok(memory.page(filter, limit)),
            Log::Sqlite(sqlite) => sqlite.page(filter, limit).await,
        }
    }

    /// Checks every record, and all that the store holds besides, against the log's chain
    /// and head.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        match &self.log {
            Log::Memory(memory) => Ok(memory.verify()),
            Log::Sqlite(sqlite) => sqlite.verify().await,
        }
    }

    /// Removes the oldest records: those older than `keep`, and more as long as the log
    /// takes more than `max_size` bytes, but none that is younger than `keep_at_least`.
    /// Returns how many were removed.
    pub async fn prune(&self, retention: Retention) -> Result<u64, StoreError> {
        match &self.log {
            Log::Memory(memory) => memory.prune(retention),
            Log::Sqlite(sqlite) => sqlite.prune(retention).await,
        }
    }
}
