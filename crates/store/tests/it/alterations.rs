//! A database in which everything occurs, altered in every way that plain SQL offers to who
//! can write the file but has no keys. Each alteration must be found.

use std::time::Duration;

use sluice_store::{
    Actor, Approval, AttachedPolicy, Bridge, Edit, GrantRef, HiddenText, Name, NewGrant, Outcome,
    PolicyRef, Record, Reservation, Retention, Secret, Server, Source, Store, Transport, Verdict,
    Vote, new_id,
};

use crate::folder::{Folder, NOW, charge, config, open, record};

/// Rounds of calls; each leaves a decision and an outcome of each of two writers.
const ROUNDS: usize = 1_500;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn edit() -> Edit {
    Edit { actor: Actor::local("t1", "ada"), message: "changed".into() }
}

fn policy(text: &str) -> AttachedPolicy {
    AttachedPolicy {
        server: name("notes"),
        name: name("dev"),
        text: text.into(),
        format: sluice_policy::Format::Json,
        version: AttachedPolicy::version_of(text),
        source: Source::Stored,
        base_files: Vec::new(),
    }
}

async fn fill_registry(store: &Store) {
    let headers = vec![("Authorization".into(), Secret::new("Bearer x".into()))];
    let server = Server {
        name: name("notes"),
        transport: Transport::Http { url: Secret::new("https://mcp.example.com".into()), headers },
        timeout: Duration::from_secs(1),
        anonymous_policy: None,
        bridge: Bridge::default(),
        hidden_text: HiddenText::default(),
        mask_secrets: true,
        source: Source::Stored,
    };
    store.put_server(server, edit()).await.unwrap();
    store.put_policy(policy("{}"), edit()).await.unwrap();
    store.put_policy(policy("{ }"), edit()).await.unwrap();
    for label in ["laptop", "phone"] {
        let new = NewGrant {
            label: name(label),
            servers: vec![name("notes")],
            policy: name("dev"),
            principal: None,
            expires_at: None,
        };
        let (grant, _) = store.create_grant(new, edit()).await.unwrap();
        if label == "phone" {
            store.revoke_grant(&grant.id, edit()).await.unwrap();
        }
    }
}

async fn hold(store: &Store) {
    let approval = Approval {
        digest: "d".into(),
        server: "notes".into(),
        grant: GrantRef { id: "g1".into(), label: "laptop".into() },
        principal: None,
        tool: "pay".into(),
        rule: "tools.pay".into(),
        approvers: 2,
        message: "ask first".into(),
        policy: PolicyRef { name: "dev".into(), version: "v1".into() },
        arg_keys: Vec::new(),
        requested_at: NOW,
        expires_at: sluice_policy::Timestamp::from_millis(i64::MAX / 2),
    };
    let pending = store.hold(approval, record(Outcome::Hold)).await.unwrap();
    let actor = Actor::local("ada", "ada");
    let vote = Vote { actor, verdict: Verdict::Approve, reason: None };
    store.decide(&pending.id, vote).await.unwrap();
}

async fn call(store: &Store, number: usize) {
    let decision = Record {
        tool: Some(format!("tool{}", number % 3).into()),
        session: Some("s".into()),
        message: Some(format!("m{number}")),
        arg_digest: Some([7; 32]),
        ..record(Outcome::Allow)
    };
    let outcome = Record {
        id: new_id(NOW),
        kind: sluice_store::Kind::Outcome,
        request: Some(decision.id),
        ..decision.clone()
    };
    let charges = vec![charge(&format!("calls{}", number % 2), 1, 1 << 40)];
    let id = decision.id;
    store
        .reserve(Reservation { id, charges, leases: Vec::new(), record: decision.into() })
        .await
        .unwrap();
    store.append_deferred(outcome);
}

/// Two writers in turn, a pruned beginning, and one of everything else.
async fn fill(folder: &Folder) {
    let stores = [open(folder.path()), open(folder.path())];
    for number in 0..ROUNDS {
        call(&stores[number % 2], number).await;
    }
    for store in &stores {
        store.flush().await.unwrap();
    }
    // All records have one age, so this removes those from before.
    let all = Retention { keep: Duration::ZERO, keep_at_least: Duration::ZERO, max_size: u64::MAX };
    stores[0].prune(all).await.unwrap();
    fill_registry(&stores[0]).await;
    hold(&stores[1]).await;
    for number in 0..ROUNDS {
        call(&stores[number % 2], number).await;
    }
    for store in stores {
        assert_eq!(store.verify().await.unwrap().faults, []);
        store.close().await.unwrap();
    }
}

/// What is done, and the SQL that does it. `LAST` and `FIRST` are records' numbers.
const ALTERATIONS: &[(&str, &str)] = &[
    ("the newest record is cut off", "DELETE FROM records WHERE seq = LAST"),
    ("the newest ten are cut off", "DELETE FROM records WHERE seq > LAST - 10"),
    ("the newer half is cut off", "DELETE FROM records WHERE seq > (LAST + FIRST) / 2"),
    (
        "the newer half is cut off with its index",
        "DELETE FROM records WHERE seq > (LAST + FIRST) / 2;
         DELETE FROM blocks WHERE block > (LAST + FIRST) / 2048;
         DELETE FROM block_facets WHERE block > (LAST + FIRST) / 2048;
         DELETE FROM block_chains WHERE block > (LAST + FIRST) / 2048",
    ),
    ("the older half is removed", "DELETE FROM records WHERE seq < (LAST + FIRST) / 2"),
    (
        "the older half is removed, and noted as pruned",
        "UPDATE meta SET value = (SELECT hash FROM records WHERE seq = FIRST + 99) WHERE name = 'pruned_hash';
         UPDATE meta SET value = FIRST + 99 WHERE name = 'pruned';
         DELETE FROM records WHERE seq < FIRST + 100",
    ),
    ("the oldest record is removed", "DELETE FROM records WHERE seq = FIRST"),
    ("all records are removed", "DELETE FROM records"),
    (
        "all records are removed, with their index and dictionary",
        "DELETE FROM records; DELETE FROM blocks; DELETE FROM block_facets;
         DELETE FROM block_chains; DELETE FROM facets; DELETE FROM chains",
    ),
    ("one record is removed", "DELETE FROM records WHERE seq = LAST - 100"),
    (
        "one record is removed, and the rest renumbered",
        "DELETE FROM records WHERE seq = LAST - 100;
         UPDATE records SET seq = -(seq - 1) WHERE seq > LAST - 100;
         UPDATE records SET seq = -seq WHERE seq < 0",
    ),
    (
        "one writer's records are removed, and the rest renumbered",
        "DELETE FROM records WHERE chain = (SELECT max(id) FROM chains);
         CREATE TEMP TABLE t AS SELECT seq, row_number() OVER (ORDER BY seq) + FIRST - 1 AS n FROM records;
         UPDATE records SET seq = -(SELECT n FROM t WHERE t.seq = records.seq);
         UPDATE records SET seq = -seq",
    ),
    ("all records are renumbered", "UPDATE records SET seq = -seq - 1; UPDATE records SET seq = -seq"),
    (
        "two records of different writers change places",
        "UPDATE records SET seq = -1 WHERE seq = (SELECT min(a.seq) FROM records a JOIN records b ON b.seq = a.seq + 1 WHERE a.chain <> b.chain);
         UPDATE records SET seq = seq - 1 WHERE seq = (SELECT min(a.seq) + 1 FROM records a WHERE a.seq > 0 AND NOT EXISTS (SELECT 1 FROM records b WHERE b.seq = a.seq + 1));",
    ),
    (
        "two records change places",
        "UPDATE records SET seq = -1 WHERE seq = LAST - 50; UPDATE records SET seq = LAST - 50 WHERE seq = LAST - 40;
         UPDATE records SET seq = LAST - 40 WHERE seq = -1",
    ),
    (
        "two records change contents",
        "UPDATE records SET id = (SELECT id FROM records WHERE seq = LAST - 51), hash = (SELECT hash FROM records WHERE seq = LAST - 51) WHERE seq = LAST - 50",
    ),
    ("a time is changed", "UPDATE records SET at = at + 1 WHERE seq = LAST"),
    ("a message is changed", "UPDATE records SET message = 'x' WHERE seq = LAST - 3"),
    ("a session is removed", "UPDATE records SET session = NULL WHERE seq = LAST - 3"),
    ("a request is changed", "UPDATE records SET request = id WHERE seq = LAST"),
    ("a digest is changed", "UPDATE records SET arg_digest = zeroblob(32) WHERE seq = LAST - 3"),
    ("a hash is changed", "UPDATE records SET hash = zeroblob(32) WHERE seq = LAST - 3"),
    ("the last hash is changed", "UPDATE records SET hash = zeroblob(32) WHERE seq = LAST"),
    (
        "a record gets another's facet",
        "UPDATE records SET facet = (SELECT min(id) FROM facets) WHERE facet <> (SELECT min(id) FROM facets) AND seq > LAST - 20",
    ),
    (
        "a record gets another writer",
        "UPDATE records SET chain = (SELECT min(id) FROM chains) WHERE chain = (SELECT max(id) FROM chains) AND seq > LAST - 20",
    ),
    ("an outcome is changed in the dictionary", "UPDATE facets SET outcome = 'deny' WHERE outcome = 'allow'"),
    ("a tool is changed in the dictionary", "UPDATE facets SET tool = 'x' WHERE tool = 'tool1'"),
    ("a writer is renamed", "UPDATE chains SET writer = 'x' WHERE id = (SELECT max(id) FROM chains)"),
    ("the charges of a record are removed", "UPDATE records SET charges = NULL WHERE charges IS NOT NULL AND seq > LAST - 20"),
    ("the charges of a record are changed", "UPDATE records SET charges = replace(charges, '\"1\"', '\"9\"') WHERE charges IS NOT NULL AND seq > LAST - 20"),
    (
        "a record is forged at the end",
        "INSERT INTO records (at, facet, id, chain, hash) SELECT at, facet, '01ARYZ6S41TSV4RRFFQ69G5FAV', chain, randomblob(32) FROM records WHERE seq = LAST",
    ),
    (
        "a record is repeated at the end",
        "INSERT INTO records SELECT seq + 1, at, facet, id, request, session, micros, upstream_status, upstream_is_error, upstream_micros, arg_digest, chain, hash, message, target, approval, actor_id, actor_label, actor_address, arg_values, anchor, charges FROM records WHERE seq = LAST",
    ),
    (
        "a record is put before the first",
        "INSERT INTO records (seq, at, facet, id, chain, hash) SELECT FIRST - 1, at, facet, id, chain, hash FROM records WHERE seq = FIRST",
    ),
    (
        "a pruning is forged",
        "INSERT INTO records (at, facet, id, chain, hash, message, actor_id, actor_label, anchor)
         SELECT at, (SELECT facet FROM records WHERE anchor IS NOT NULL LIMIT 1), '01ARYZ6S41TSV4RRFFQ69G5FAV', chain, randomblob(32), 'records were pruned', 'gateway', 'gateway',
            '{\"through\":' || (FIRST + 499) || ',\"hash\":\"' || lower(hex((SELECT hash FROM records WHERE seq = FIRST + 499))) || '\"}' FROM records WHERE seq = LAST;
         UPDATE meta SET value = (SELECT hash FROM records WHERE seq = FIRST + 499) WHERE name = 'pruned_hash';
         UPDATE meta SET value = FIRST + 499 WHERE name = 'pruned';
         DELETE FROM records WHERE seq < FIRST + 500",
    ),
    ("an anchor is changed", "UPDATE records SET anchor = replace(anchor, '\"through\":', '\"through\":1') WHERE anchor IS NOT NULL"),
    ("an anchor is removed", "UPDATE records SET anchor = NULL WHERE anchor IS NOT NULL"),
    ("the counters are emptied", "DELETE FROM counters"),
    ("one counter is removed", "DELETE FROM counters WHERE name = 'calls1'"),
    ("a counter is set back", "UPDATE counters SET used = '1'"),
    ("a counter gets another owner", "UPDATE counters SET owner = 'mallory'"),
    ("a window ends sooner", "UPDATE counters SET window_end = 0"),
    ("a counter is added", "INSERT INTO counters VALUES ('demo', 'grant', 'bob', 'calls', 0, 9000000000000, '1')"),
    ("the index is emptied", "DELETE FROM blocks; DELETE FROM block_facets; DELETE FROM block_chains"),
    ("the blocks are emptied", "DELETE FROM blocks"),
    ("the facets of the blocks are emptied", "DELETE FROM block_facets"),
    ("the writers of the blocks are emptied", "DELETE FROM block_chains"),
    ("a block's times are changed", "UPDATE blocks SET last_at = 0, first_at = 0"),
    ("what a grant uses is changed", "UPDATE block_grants SET bytes = 0"),
    ("a retention is set", "REPLACE INTO meta VALUES ('retention', '1 1 1')"),
    ("a summary is invented", "INSERT INTO blocks VALUES (1000, 0, 0)"),
    (
        "a trigger deletes records",
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records WHERE seq = NEW.seq; END",
    ),
    (
        "a trigger leaves records out",
        "CREATE TRIGGER t BEFORE INSERT ON records WHEN NEW.session = 's' BEGIN SELECT raise(IGNORE); END",
    ),
    (
        "a trigger sets counters back",
        "CREATE TRIGGER t AFTER UPDATE ON counters BEGIN UPDATE counters SET used = '0'; END",
    ),
    (
        "the view leaves records out",
        "DROP VIEW audit; CREATE VIEW audit AS SELECT * FROM records WHERE session IS NULL",
    ),
    ("the view is removed", "DROP VIEW audit"),
    ("a table is added", "CREATE TABLE t (x)"),
    ("an index is removed", "DROP INDEX approvals_pending"),
    ("a revoked grant is valid again", "UPDATE grants SET revoked_at = NULL"),
    ("a grant gets another token", "UPDATE grants SET token_sha256 = zeroblob(32) WHERE label = 'laptop'"),
    ("a grant is added", "INSERT INTO grants (id, label, servers, policy, token_sha256, created_at) SELECT 'x', 'x', servers, policy, zeroblob(32), created_at FROM grants WHERE label = 'laptop'"),
    ("a grant gets another policy", "UPDATE grants SET policy = 'open'"),
    ("an older policy is in force again", "UPDATE policies SET current = (SELECT min(id) FROM policy_versions)"),
    ("a policy's text is changed", "UPDATE policy_versions SET text = '[]'"),
    ("a policy is removed", "DELETE FROM policies"),
    ("a server gets another address", "UPDATE servers SET url = 'https://evil.example.com'"),
    ("a header is removed", "DELETE FROM headers"),
    ("a held call is approved", "UPDATE approvals SET state = 'approved'"),
    ("a held call is removed", "DELETE FROM approvals"),
    ("a vote is added", "INSERT INTO approval_votes SELECT approval, 'eve', 'eve', NULL, 'approve', NULL, 2 FROM approval_votes"),
    ("a change of the registry is hidden", "UPDATE meta SET value = value - 1 WHERE name = 'epoch'"),
    ("the database takes another's identity", "UPDATE meta SET value = zeroblob(16) WHERE name = 'incarnation'"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_alteration_by_plain_sql_is_found() {
    let original = Folder::new();
    fill(&original).await;
    assert_eq!(original.copy().reader().verify().await.unwrap().faults, []);
    let mut missed = Vec::new();
    for (what, sql) in ALTERATIONS {
        let copy = original.copy();
        let connection = copy.connect();
        let bound = |select: &str| -> i64 {
            let sql = format!("SELECT {select}(seq) FROM records");
            connection.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        let (first, last) = (bound("min"), bound("max"));
        let sql = sql.replace("FIRST", &first.to_string()).replace("LAST", &last.to_string());
        connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(connection);
        let verified = copy.reader().verify().await;
        if verified.is_ok_and(|verified| verified.faults.is_empty()) {
            missed.push(*what);
        }
    }
    assert!(missed.is_empty(), "of {} alterations missed: {missed:#?}", ALTERATIONS.len());
}

/// What would be used at once is found at the start too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_altered_is_not_written_on() {
    let original = Folder::new();
    fill(&original).await;
    drop(open(original.copy().path()));
    for (what, sql) in [
        ("a cut tail", "DELETE FROM records WHERE seq > 2000"),
        ("counters emptied", "DELETE FROM counters"),
        ("a grant revived", "UPDATE grants SET revoked_at = NULL"),
        ("a call approved", "UPDATE approvals SET state = 'approved'"),
        ("a trigger", "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"),
    ] {
        let copy = original.copy();
        copy.connect().execute_batch(sql).unwrap();
        assert!(Store::open(config(copy.path())).is_err(), "{what}");
    }
}
