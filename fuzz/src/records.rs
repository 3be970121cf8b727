//! The record codec: a record comes back from the database as it was written, whatever its texts
//! are, its export is one line of JSON that says the same, and the chain over the exports holds.

mod fields;

use std::{
    cell::RefCell,
    env, fs,
    path::PathBuf,
    process,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use serde_json::{Map, Value, json};
use sluice_store::{Clock, Durability, Entry, Filter, Key, Outcome, Record, Store, StoreConfig};
use tokio::runtime::{Builder, Runtime};

use fields::Fields;

/// Records in one database, before a new one is begun.
const MOST_RECORDS: usize = 100;
/// Records that one input makes.
const MOST_OF_INPUT: usize = 4;
/// The largest number that a database holds.
const LARGEST: u64 = i64::MAX.unsigned_abs();

/// A database in a folder of its own, and a store in memory with the same records.
struct Pair {
    runtime: Runtime,
    disk: Store,
    memory: Store,
    written: usize,
    folder: PathBuf,
}

thread_local! {
    static PAIR: RefCell<Option<Pair>> = const { RefCell::new(None) };
}

/// Takes the input for the fields of some records.
pub fn check(data: &[u8]) {
    let mut fields = Fields::new(data);
    let mut records = Vec::new();
    while records.len() < MOST_OF_INPUT && (records.is_empty() || !fields.is_over()) {
        records.push(fields.record());
    }
    PAIR.with_borrow_mut(|place| {
        let pair = place.get_or_insert_with(Pair::open);
        pair.check(&records);
        if pair.written >= MOST_RECORDS {
            *place = None;
        }
    });
}

impl Pair {
    fn open() -> Pair {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("sluice-records-{}-{number}", process::id()));
        fs::create_dir_all(&folder).expect("a folder for the database");
        let clock = Clock::Fixed(Arc::new(AtomicI64::new(1_767_268_800_000)));
        let config = StoreConfig {
            directory: folder.clone(),
            durability: Durability::Process,
            key: Key::from_bytes([7; 32]),
            clock: clock.clone(),
            retention: None,
            accept_loss: false,
        };
        let disk = Store::open(config).expect("a new database");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Pair { runtime, disk, memory: Store::memory(clock), written: 0, folder }
    }

    fn check(&mut self, records: &[Record]) {
        self.written += records.len();
        let filter = Filter { newest_first: true, ..Filter::default() };
        self.runtime.block_on(async {
            let mut exports = Vec::new();
            for store in [&self.disk, &self.memory] {
                for record in records {
                    store.append(record.clone()).await.expect("it is written");
                }
                let mut page = store.page(&filter, records.len()).await.expect("a page");
                page.entries.reverse();
                let read: Vec<_> =
                    page.entries.iter().map(|entry| cap_micros(&entry.record)).collect();
                assert_eq!(read, records.iter().map(cap_micros).collect::<Vec<_>>());
                exports.push(page.entries.iter().map(export).collect::<Vec<_>>());
                let verified = store.verify().await.expect("it can be read");
                assert_eq!(verified.faults, []);
            }
            let expected: Vec<_> =
                records.iter().map(|record| describe(&cap_micros(record))).collect();
            assert_eq!(exports, [expected.clone(), expected]);
        });
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // What is left behind in the folder of temporary files does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A record as a database can hold it, and as every export says it.
fn cap_micros(record: &Record) -> Record {
    let mut record = record.clone();
    record.micros = record.micros.map(|micros| micros.min(LARGEST));
    if let Some(upstream) = &mut record.upstream {
        upstream.micros = upstream.micros.min(LARGEST);
    }
    record
}

/// The export of a record, without its place in the chain.
fn export(entry: &Entry) -> Value {
    let text = entry.text();
    assert!(!text.contains(['\n', '\r']), "{text:?} is not one line");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let Value::Object(mut members) = value else { panic!("{text} is no object") };
    for link in ["chain", "prev", "hash"] {
        assert!(members.remove(link).is_some_and(|link| link.is_string()), "{link} of {text}");
    }
    Value::Object(members)
}

/// What the export of a record must say.
fn describe(record: &Record) -> Value {
    let mut members = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            members.insert(name.to_owned(), value);
        }
    };
    let text = |text: Option<&str>| text.map(Value::from);
    add("id", Some(record.id.to_string().into()));
    add("at", Some(record.at.to_string().into()));
    add("kind", text(Some(record.kind.as_str())));
    add("request", record.request.map(|id| id.to_string().into()));
    add("server", text(record.server.as_deref()));
    let grant = record.grant.as_ref();
    add("grant", grant.map(|grant| json!({ "id": &*grant.id, "label": &*grant.label })));
    add("principal", text(record.principal.as_deref()));
    add("session", text(record.session.as_deref()));
    add("method", text(record.method.as_deref()));
    add("tool", text(record.tool.as_deref()));
    add("outcome", text(record.outcome.map(Outcome::as_str)));
    add("target", text(record.target.as_deref()));
    add(
        "actor",
        record.actor.as_ref().map(|actor| {
            let mut value = json!({ "id": &*actor.id, "label": &*actor.label });
            if let Some(address) = &actor.address {
                value["address"] = Value::from(&**address);
            }
            value
        }),
    );
    add("approval", text(record.approval.as_deref()));
    add("rule", text(record.rule.as_deref()));
    add("message", text(record.message.as_deref()));
    let policy = record.policy.as_ref();
    add(
        "policy",
        policy.map(|policy| json!({ "name": &*policy.name, "version": &*policy.version })),
    );
    let has_keys = record.kind.as_str() == "decision" || !record.arg_keys.is_empty();
    add("arg_keys", has_keys.then(|| json!(record.arg_keys)));
    add("arg_digest", record.arg_digest.map(|digest| hex(&digest).into()));
    let values = record.arg_values.as_deref();
    add("arg_values", values.map(|values| serde_json::from_str(values).expect("JSON")));
    add(
        "upstream",
        record.upstream.as_ref().map(|upstream| {
            let mut value = Map::new();
            value.extend(upstream.status.map(|status| ("status".to_owned(), status.into())));
            value.extend(upstream.is_error.map(|is| ("is_error".to_owned(), is.into())));
            value.insert("micros".to_owned(), upstream.micros.into());
            value.into()
        }),
    );
    add("micros", record.micros.map(Value::from));
    Value::Object(members)
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}
