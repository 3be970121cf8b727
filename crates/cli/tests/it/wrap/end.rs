//! How a wrap ends: as its command does, with its client, or by force; and what
//! is left of it then.

use std::process::Command;

use serde_json::json;

use super::{ALLOW, client::Client};
use crate::{
    sluice::Folder,
    stdio::{SERVER, runs, until},
};

#[test]
fn wrap_exits_with_the_code_of_its_command() {
    let check = |line: &str, expected: i32| {
        let folder = Folder::with("policy.json", ALLOW);
        let mut client = Client::start(&folder, &["--", "sh", "-c", line]);
        assert_eq!(client.code(), expected, "{line}");
    };
    check("exit 0", 0);
    check("exit 7", 7);
    check("kill -9 $$", 137);
    check("kill -TERM $$", 143);
}

#[test]
fn a_command_that_dies_costs_its_callers_an_error() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER]);
    client.hello();
    let hung = client.send("tools/call", &json!({"name":"hang"}));
    let dead = client.send("tools/call", &json!({"name":"die"}));
    let mut answered = [client.read(), client.read()].map(|answer| {
        assert!(answer["error"].is_object(), "{answer}");
        answer["id"].as_u64().unwrap()
    });
    answered.sort_unstable();
    assert_eq!(answered, [hung, dead]);
    assert_eq!(client.code(), 3);
    let errors = client.errors();
    assert!(errors.contains("about to die"), "{errors}");
}

#[test]
fn a_command_that_does_not_start_says_why_to_its_client() {
    let folder = Folder::with("policy.json", ALLOW);
    let line = "read hello; printf 'no such key: %s' $SERVICE_KEY >&2; exit 4";
    let variables = [("SERVICE_KEY", "0123456789")];
    let mut client = Client::start_with(&folder, &variables, &["--", "sh", "-c", line]);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let answer = client.ask("initialize", &hello);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("exit status: 4"), "{message}");
    assert!(message.ends_with(": \"no such key: [secret]\""), "{message}");
    assert_eq!(client.code(), 4);
    assert!(client.errors().contains("no such key: [secret]"));
}

#[test]
fn requests_sent_before_the_end_are_still_answered() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER]);
    client.hello();
    let ids: Vec<_> = (0..20).map(|_| client.send("tools/call", &json!({"name":"echo"}))).collect();
    client.close();
    let mut answered: Vec<_> = ids.iter().map(|_| client.read()["id"].as_u64().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, ids);
    assert_eq!(client.code(), 0);
}

/// The process of the server, and one that it has started.
fn processes(client: &mut Client) -> Vec<String> {
    let said = client.call("child")["result"]["content"][0]["text"].to_string();
    let pids: Vec<_> = said.trim_matches('"').split(' ').map(String::from).collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| runs(pid)), "{pids:?}");
    pids
}

#[test]
fn a_killed_wrap_leaves_no_process() {
    let folder = Folder::with("policy.json", ALLOW);
    let mut client = Client::start(&folder, &["--", SERVER]);
    client.hello();
    let pids = processes(&mut client);
    client.process.kill().unwrap();
    until("all have ended", || !pids.iter().any(|pid| runs(pid)));
}

#[test]
fn a_wrap_ended_by_a_signal_leaves_no_process() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let folder = Folder::with("policy.json", ALLOW);
        let mut client = Client::start(&folder, &["--", SERVER]);
        client.hello();
        let pids = processes(&mut client);
        let pid = client.process.id().to_string();
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success()
        );
        assert_eq!(client.code(), code);
        until("all have ended", || !pids.iter().any(|pid| runs(pid)));
    }
}

#[test]
fn the_command_has_the_environment_of_its_client() {
    let folder = Folder::with("policy.json", ALLOW);
    let variables = [("API_KEY", "of the server"), ("SLUICE_ADMIN_TOKEN", "hushed")];
    let mut client = Client::start_with(&folder, &variables, &["--", SERVER]);
    client.hello();
    let env = client.call("env").to_string();
    assert!(env.contains("API_KEY=[secret]"), "{env}");
    assert!(!env.contains("hushed"), "{env}");
}
