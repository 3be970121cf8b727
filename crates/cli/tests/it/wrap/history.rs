//! What a wrap itself does is in the log: its start, its stop, and the expiry of
//! calls that it has held.

use serde_json::Value;
use sluice_store::{AttachedPolicy, Clock};

use super::{ALLOW, client::Client};
use crate::{
    sluice::Folder,
    stdio::{SERVER, until},
};

const HELD: &str =
    r#"{"version":"1","default":"allow","tools":{"echo":{"approval":{"expires":"1s"}}}}"#;

fn records(folder: &Folder, kind: &str) -> Vec<Value> {
    let log = folder.run(&["--data", "data", "log", "--json", "--kind", kind]).exits(0);
    log.json()["records"].as_array().unwrap().clone()
}

#[track_caller]
fn check_history(folder: &Folder) {
    let records = records(folder, "admin");
    let messages: Vec<_> = records.iter().map(|one| one["message"].as_str().unwrap()).collect();
    let [started, stopped] = messages[..] else { panic!("{messages:?}") };
    assert!(started.starts_with("gateway started: sluice "), "{started}");
    let version = AttachedPolicy::version_of(ALLOW);
    let what = format!(", wraps server `s` with policy `policy` version {version}");
    assert!(started.ends_with(&what), "{started}");
    assert_eq!(stopped, "gateway stopped: it wrapped server `s`");
    for record in &records {
        assert_eq!(record["actor"]["id"], "gateway");
        assert_eq!(record["server"], "s");
        assert_eq!(record["policy"]["version"], version);
    }
}

#[test]
fn the_start_and_the_stop_are_recorded() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--name", "s", "--", SERVER]);
    client.hello();
    client.call("echo");
    assert_eq!(client.end(), 0);
    check_history(&folder);
    // The start comes before all that follows from it.
    let log = folder.run(&["--data", "data", "log", "export"]).exits(0).out;
    assert!(log.lines().next().unwrap().contains("gateway started"), "{log}");
    assert!(log.lines().last().unwrap().contains("gateway stopped"), "{log}");
    folder.run(&["--data", "data", "log", "verify"]).exits(0);
}

#[test]
fn both_are_recorded_also_if_the_command_ends_at_once() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--name", "s", "--", "sh", "-c", "exit 7"]);
    assert_eq!(client.code(), 7);
    check_history(&folder);
}

#[test]
fn the_expiry_of_a_held_call_is_recorded() {
    let folder = Folder::with("policy.json", HELD);
    let arguments = ["--name", "s", "--", SERVER];
    let mut client = Client::start(&folder, &arguments);
    client.hello();
    let held = client.call("echo");
    let decision = &held["result"]["_meta"]["sluicegate/decision"];
    assert_eq!(decision["outcome"], "hold", "{held}");
    let over = Clock::System.now().as_millis() + 1_100;
    assert_eq!(client.end(), 0);
    assert!(records(&folder, "approval").is_empty(), "it still waits");
    while Clock::System.now().as_millis() <= over {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // A wrap looks for what is over as soon as it starts.
    let client = Client::start(&folder, &arguments);
    until("the expiry is recorded", || records(&folder, "approval").len() == 1);
    let expired = records(&folder, "approval").remove(0);
    assert_eq!(expired["approval"], decision["approval"]["id"]);
    assert_eq!(expired["message"], "held call expired");
    assert_eq!(expired["actor"]["id"], "gateway");
    assert_eq!(client.end(), 0);
}
