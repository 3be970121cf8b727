//! The tables, as `docs/reference/data.md` describes them.

use std::collections::BTreeMap;

use rusqlite::Connection;

/// The version of the table layout. Later layouts are reached by migrating forward.
pub(super) const LAYOUT: i32 = 1;

/// Records that share a summary.
pub(super) const BLOCK: i64 = 1_024;

/// The log and its dictionary. `records` has no index, so that appending costs the same
/// at any size. `blocks` and its companion tables are written once per 1,024 records and
/// tell a search which blocks to read.
const LOG: &str = "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE records (
        seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, facet INTEGER NOT NULL,
        id TEXT NOT NULL, request TEXT, session TEXT, micros INTEGER,
        upstream_status INTEGER, upstream_is_error INTEGER, upstream_micros INTEGER,
        arg_digest BLOB, chain INTEGER NOT NULL, hash BLOB NOT NULL,
        message TEXT, target TEXT, approval TEXT, actor_id TEXT, actor_label TEXT, actor_address TEXT,
        arg_values TEXT, anchor TEXT, charges TEXT
    ) STRICT;
    CREATE TABLE facets (
        id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE,
        kind TEXT NOT NULL, server TEXT, grant_id TEXT, grant_label TEXT, principal TEXT,
        method TEXT, tool TEXT, outcome TEXT, rule TEXT, policy TEXT, policy_version TEXT, arg_keys TEXT
    ) STRICT;
    CREATE TABLE chains (id INTEGER PRIMARY KEY, writer TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE blocks (block INTEGER PRIMARY KEY, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL) STRICT;
    CREATE TABLE block_facets (
        facet INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (facet, block)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX block_facets_by_block ON block_facets (block);
    CREATE TABLE block_chains (
        chain INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (chain, block)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE block_requests (block INTEGER PRIMARY KEY, filter BLOB NOT NULL) STRICT;
    CREATE TABLE block_grants (
        block INTEGER NOT NULL, grant_id TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (block, grant_id)
    ) STRICT, WITHOUT ROWID;
    CREATE VIEW audit AS SELECT
        r.seq, r.id, r.at AS at_ms,
        strftime('%Y-%m-%dT%H:%M:%S', r.at / 1000, 'unixepoch') || printf('.%03dZ', r.at % 1000) AS at,
        f.kind, r.request, f.server, f.grant_id, f.grant_label, f.principal, r.session, f.method, f.tool,
        f.outcome, r.target, r.actor_id, r.actor_label, r.actor_address, r.approval, f.rule, r.message,
        f.policy, f.policy_version, f.arg_keys, lower(hex(r.arg_digest)) AS arg_digest, r.arg_values,
        r.upstream_status, r.upstream_is_error, r.upstream_micros, r.micros, r.anchor, r.charges,
        c.writer AS chain,
        lower(hex(coalesce((SELECT p.hash FROM records p WHERE p.seq = r.seq - 1),
            (SELECT m.value FROM meta m WHERE m.name = 'pruned_hash')))) AS prev,
        lower(hex(r.hash)) AS hash
    FROM records r LEFT JOIN facets f ON f.id = r.facet LEFT JOIN chains c ON c.id = r.chain;
";

const LEDGER: &str = "
    CREATE TABLE counters (
        server TEXT NOT NULL, scope TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
        window_start INTEGER NOT NULL, window_end INTEGER NOT NULL, used TEXT NOT NULL,
        PRIMARY KEY (server, scope, owner, name, window_start)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE leases (
        server TEXT NOT NULL, scope TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
        request TEXT NOT NULL, writer TEXT NOT NULL,
        PRIMARY KEY (server, scope, owner, name, request)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX leases_by_request ON leases (request);
    CREATE TABLE approvals (
        id TEXT PRIMARY KEY, state TEXT NOT NULL, digest TEXT NOT NULL,
        server TEXT NOT NULL, grant_id TEXT NOT NULL, grant_label TEXT NOT NULL, principal TEXT,
        tool TEXT NOT NULL, rule TEXT NOT NULL, approvers INTEGER NOT NULL, message TEXT NOT NULL,
        policy TEXT NOT NULL, policy_version TEXT NOT NULL, arg_keys TEXT NOT NULL,
        requested_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX approvals_pending ON approvals (digest) WHERE state = 'pending';
    CREATE INDEX approvals_by_end ON approvals (expires_at);
    CREATE INDEX approvals_by_grant ON approvals (grant_id, requested_at);
    CREATE TABLE approval_votes (
        approval TEXT NOT NULL, actor_id TEXT NOT NULL, actor_label TEXT NOT NULL, actor_address TEXT,
        verdict TEXT NOT NULL, reason TEXT, position INTEGER NOT NULL,
        PRIMARY KEY (approval, actor_id)
    ) STRICT, WITHOUT ROWID;
";

const REGISTRY: &str = "
    CREATE TABLE servers (
        name TEXT PRIMARY KEY, url TEXT NOT NULL, timeout_ms INTEGER NOT NULL, anonymous_policy TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE headers (
        server TEXT NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, sealed BLOB NOT NULL,
        PRIMARY KEY (server, place)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE declared_servers (
        name TEXT PRIMARY KEY, identity TEXT NOT NULL, is_declared INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE policy_versions (
        id INTEGER PRIMARY KEY, server TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
        format TEXT NOT NULL, text TEXT NOT NULL, at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX policy_versions_by_name ON policy_versions (server, name);
    CREATE TABLE policies (
        server TEXT NOT NULL, name TEXT NOT NULL, current INTEGER NOT NULL REFERENCES policy_versions (id),
        PRIMARY KEY (server, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE grants (
        id TEXT PRIMARY KEY, label TEXT NOT NULL, servers TEXT NOT NULL, policy TEXT NOT NULL, principal TEXT,
        token_sha256 BLOB NOT NULL UNIQUE, previous_sha256 BLOB UNIQUE, previous_until INTEGER,
        created_at INTEGER NOT NULL, created_by TEXT, expires_at INTEGER, revoked_at INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX grants_by_label ON grants (label) WHERE revoked_at IS NULL;
    CREATE TABLE grant_uses (grant_id TEXT PRIMARY KEY, last_used INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE people (
        id TEXT PRIMARY KEY, login TEXT NOT NULL UNIQUE, name TEXT NOT NULL, role TEXT NOT NULL, servers TEXT,
        reason TEXT NOT NULL, issuer TEXT, subject TEXT, password TEXT,
        invitation_sha256 BLOB UNIQUE, invited_until INTEGER,
        created_at INTEGER NOT NULL, created_by TEXT NOT NULL, disabled_at INTEGER, last_sign_in INTEGER,
        UNIQUE (issuer, subject)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE sessions (
        token_sha256 BLOB PRIMARY KEY, person TEXT, address TEXT NOT NULL,
        created_at INTEGER NOT NULL, used_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE api_tokens (
        id TEXT PRIMARY KEY, person TEXT NOT NULL, label TEXT NOT NULL, role TEXT NOT NULL, servers TEXT,
        token_sha256 BLOB NOT NULL UNIQUE, created_at INTEGER NOT NULL, created_by TEXT NOT NULL,
        expires_at INTEGER, revoked_at INTEGER, last_used INTEGER
    ) STRICT, WITHOUT ROWID;
    INSERT INTO meta (name, value) VALUES ('epoch', 0), ('pruned', 0), ('pruned_hash', zeroblob(32));
";

/// The statements that create all tables in an empty database.
pub(super) const PARTS: [&str; 3] = [LOG, LEDGER, REGISTRY];

/// The first object of the schema that is missing, was added or was changed, in words.
/// Triggers could delete records, and views and indexes could hide them.
pub(super) fn find_alteration(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let model = Connection::open_in_memory()?;
    model.execute_batch(&PARTS.concat())?;
    let (expected, found) = (list_objects(&model)?, list_objects(connection)?);
    for (object, sql) in &found {
        match expected.get(object) {
            None => return Ok(Some(format!("{object} was added"))),
            Some(expected) if expected != sql => return Ok(Some(format!("{object} was changed"))),
            Some(_) => {}
        }
    }
    let missing = expected.keys().find(|object| !found.contains_key(*object));
    Ok(missing.map(|object| format!("{object} was removed")))
}

/// Type and name of each object, and the statement that creates it. What SQLite adds by
/// itself is left out: indexes of keys, and statistics.
fn list_objects(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let sql = "SELECT type || ' `' || name || '`', coalesce(sql, '') FROM main.sqlite_schema
        WHERE NOT (type = 'index' AND name LIKE 'sqlite\\_autoindex\\_%' ESCAPE '\\' AND sql IS NULL)
            AND NOT (type = 'table' AND name LIKE 'sqlite\\_stat_' ESCAPE '\\')";
    let mut statement = connection.prepare(sql)?;
    let objects = statement.query_map([], |row| {
        let text: String = row.get(1)?;
        // Renaming a table and back leaves quotes.
        let text: Vec<_> = text.split_whitespace().collect();
        Ok((row.get(0)?, text.join(" ").replace('"', "")))
    })?;
    objects.collect()
}
