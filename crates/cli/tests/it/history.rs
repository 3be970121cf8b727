//! What the gateway itself does is in the log: starts, stops and reloads with
//! their versions; and what another process stores is put in force.

use serde_json::Value;
use sluice_policy::Format;
use sluice_store::{
    Actor, AttachedPolicy, Clock, Durability, Edit, Key, Name, Source, Store, StoreConfig,
};

use crate::sluice::Folder;

const TOKEN: &str = "sg_a_token_for_history_tests";
const DENY: &str = r#"{"version":"1","default":"deny"}"#;
const ALLOW: &str = r#"{"version":"1","default":"allow"}"#;

fn folder() -> Folder {
    let folder = Folder::with("policy.json", DENY);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n\
             [grants.h]\nservers = [\"notes\"]\npolicy = \"stored\"\ntoken = \"{TOKEN}-h\"\n",
        ),
    );
    folder
}

#[test]
fn starts_reloads_and_stops_are_recorded_with_their_versions() {
    let folder = folder();
    let up = folder.up(&[]);
    let call = || up.run(&["call", "notes", "list_notes", "--token", TOKEN]).code;
    assert_eq!(call(), 1);
    folder.write("policy.json", ALLOW);
    up.wait_until("the edit is in force", || call() == 0);
    assert_eq!(up.end(), 0);
    let log = folder.run(&["--data", "data", "log", "--json", "--kind", "admin"]).exits(0);
    let log: Value = serde_json::from_str(&log.out).unwrap();
    let records = log["records"].as_array().unwrap();
    let messages: Vec<_> =
        records.iter().map(|record| record["message"].as_str().unwrap()).collect();
    assert_eq!(messages.len(), 4, "{messages:?}");
    let (_, version) = messages[0].split_once("configuration version ").unwrap();
    assert!(messages[0].starts_with("gateway started: sluice "), "{messages:?}");
    let reloaded = format!("configuration reloaded: version {version} was replaced by version ");
    assert!(messages[1].starts_with(&reloaded), "{messages:?}");
    let versions = [DENY, ALLOW].map(AttachedPolicy::version_of);
    let [before, after] = &versions;
    let policy =
        format!("policy `p` of server `notes` reloaded: version {before} was replaced by {after}");
    assert_eq!(messages[2], policy);
    assert_eq!(records[2]["policy"]["version"], **after);
    assert_eq!(messages[3], "gateway stopped");
    for record in records {
        assert_eq!(record["actor"]["id"], "gateway");
    }
}

/// A refused edit is recorded once for its content, whatever becomes of the file's time.
#[test]
fn a_refused_reload_is_recorded_once() {
    let folder = folder();
    let up = folder.up(&[]);
    let refused = || {
        let query = ["log", "--json", "--kind", "admin", "--outcome", "error"];
        let log = up.run(&query).exits(0).json();
        let texts = log["records"].as_array().unwrap().iter().map(|record| {
            assert_eq!(record["actor"]["id"], "gateway");
            record["message"].as_str().unwrap().to_owned()
        });
        texts.collect::<Vec<_>>()
    };
    let status = up.run(&["status", "--json"]).exits(0).json();
    let version = status["config"]["version"].as_str().unwrap().to_owned();
    folder.write("policy.json", r#"{"version":"1","default":"perhaps"}"#);
    up.wait_until("the refusal is recorded", || refused().len() == 1);
    let message = refused().remove(0);
    let start = format!(
        "configuration reload refused; the previous configuration, version {version}, stays in force; first problem: "
    );
    assert!(message.starts_with(&start) && message.contains("policy.json:1:"), "{message}");
    let toml = std::fs::read_to_string(folder.path().join("sluice.toml")).unwrap();
    folder.write("policy.json", r#"{"version":"1","default":"perhaps"}"#);
    folder.write("sluice.toml", &toml);
    let long = "x".repeat(5_000);
    folder.write("policy.json", &format!(r#"{{"version":"1","default":"{long}"}}"#));
    up.wait_until("another content is recorded too", || refused().len() == 2);
    assert!(refused()[1].len() < 700, "{:?}", refused());
    folder.write("policy.json", ALLOW);
    let call = || up.run(&["call", "notes", "list_notes", "--token", TOKEN]).code;
    up.wait_until("the next edit is in force", || call() == 0);
    assert_eq!(refused().len(), 2);
    assert_eq!(up.end(), 0);
}

/// Another process on the data directory changes the registry under the gateway.
#[test]
fn a_policy_stored_by_another_process_is_put_in_force() {
    let folder = folder();
    let up = folder.up(&[]);
    let token = format!("{TOKEN}-h");
    let call = || up.run(&["call", "notes", "list_notes", "--token", &token]).code;
    assert_eq!(call(), 1);
    let directory = folder.path().join("data");
    let digits = std::fs::read_to_string(directory.join("keys/master")).unwrap();
    let key = data_encoding::HEXLOWER.decode(digits.trim().as_bytes()).unwrap();
    let store = Store::open(StoreConfig {
        retention: None,
        directory,
        durability: Durability::Process,
        key: Key::from_bytes(key.try_into().unwrap()),
        clock: Clock::System,
        accept_loss: false,
    })
    .unwrap();
    let policy = AttachedPolicy {
        server: Name::new("notes").unwrap(),
        name: Name::new("stored").unwrap(),
        text: ALLOW.to_owned(),
        format: Format::Json,
        version: AttachedPolicy::version_of(ALLOW),
        source: Source::Stored,
        base_files: Vec::new(),
    };
    let edit = Edit { actor: Actor::local("test", "test"), message: "policy put".into() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.put_policy(policy, edit)).unwrap();
    up.wait_until("the stored policy is in force", || call() == 0);
    assert_eq!(up.end(), 0);
}

/// The decision names the approval it waits for, and its end is recorded.
#[test]
fn a_held_call_and_its_expiry_are_recorded_with_the_approval() {
    let folder = folder();
    let hold =
        r#"{"version":"1","default":"deny","tools":{"list_notes":{"approval":{"expires":"1s"}}}}"#;
    folder.write("policy.json", hold);
    let up = folder.up(&[]);
    assert_eq!(up.run(&["call", "notes", "list_notes", "--token", TOKEN]).code, 1);
    let over = Clock::System.now().as_millis() + 1_100;
    assert_eq!(up.end(), 0);
    let records = |kind: &str| {
        let log = folder.run(&["--data", "data", "log", "--json", "--kind", kind]).exits(0);
        log.json()["records"].as_array().unwrap().clone()
    };
    let decisions = records("decision");
    let waiting: Vec<_> = decisions.iter().filter(|one| one["outcome"] == "hold").collect();
    assert_eq!(waiting.len(), 1, "{decisions:?}");
    let approval = waiting[0]["approval"].as_str().unwrap();
    while Clock::System.now().as_millis() <= over {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // A gateway looks for what is over as soon as it starts.
    let up = folder.up(&[]);
    up.wait_until("the expiry is recorded", || records("approval").len() == 1);
    let expired = records("approval").remove(0);
    assert_eq!(expired["approval"], approval);
    assert_eq!(expired["message"], "held call expired");
    assert_eq!(expired["actor"]["id"], "gateway");
    assert_eq!(up.end(), 0);
}
