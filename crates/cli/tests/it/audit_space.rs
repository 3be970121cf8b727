//! The space of the audit log: no agent can push the records of others out of it, and none can
//! use it up alone.

use std::{fs, net::SocketAddr};

use sluice_testkit::{Answer, RawClient};

use crate::{sluice::Folder, up::Up};

const QUIET: &str = "sg_a_token_for_the_quiet_agent";
const LOUD: &str = "sg_a_token_for_the_loud_agent";
/// Every tool but the demo server's own is held.
const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"list_notes":{},"held*":{"approval":{"message":"Ask first."}}}}"#;

/// A gateway whose log has 2 MiB of space.
fn folder(keep_at_least: &str) -> Folder {
    let folder = Folder::with("policy.json", POLICY);
    folder.write(
        "sluice.toml",
        &format!(
            "[audit]\nmax_size = \"2MiB\"\nkeep_at_least = \"{keep_at_least}\"\n\
             [servers.notes]\nbuiltin = \"demo\"\n\
             [policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
             [grants.quiet]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{QUIET}\"\n\
             [grants.loud]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{LOUD}\"\n",
        ),
    );
    folder
}

async fn call(address: SocketAddr, token: &str, tool: &str, arguments: &str) -> Answer {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    );
    let length = body.len();
    let request = format!(
        "POST /mcp/notes HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let mut client = RawClient::connect(address).await.unwrap();
    client.send(request.as_bytes()).await.unwrap();
    client.answer().await.unwrap().unwrap_or_default()
}

async fn list_notes(up: &Up, token: &str) -> u16 {
    call(up.listen, token, "list_notes", "{}").await.status
}

/// How many decisions on calls of a grant are in the log.
fn decisions(folder: &Folder, grant: &str) -> usize {
    let query =
        ["--data", "data", "log", "--json", "--limit", "1000", "--kind", "decision", "--grant"];
    let log = folder.run(&[&query[..], &[grant]].concat()).exits(0).json();
    log["records"].as_array().unwrap().len()
}

/// 200 held calls, then 70 of 154 KB: more of them than the log has space for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_calls_do_not_push_the_records_of_others_out() {
    let folder = folder("1s");
    let up = folder.up(&[]);
    for _ in 0..20 {
        assert_eq!(list_notes(&up, QUIET).await, 200);
    }
    let mut refusal = String::new();
    for number in 0..200 {
        let answer = call(up.listen, LOUD, "held", &format!(r#"{{"n":{number}}}"#)).await;
        assert_eq!(answer.status, 200);
        refusal = answer.text().clone();
    }
    let bound = "this grant has 100 calls that wait for approval, and may not have more";
    assert!(refusal.contains(bound), "{refusal}");
    assert!(refusal.contains("[POLICY DENIED]"), "{refusal}");
    for number in 0..70 {
        let tool = format!("held_{number}_{}", "x".repeat(154_000));
        assert_eq!(call(up.listen, LOUD, &tool, "{}").await.status, 200);
    }
    // Another grant's calls are held as before.
    let other = call(up.listen, QUIET, "held", "{}").await;
    assert!(other.text().contains("[APPROVAL REQUIRED]"), "{}", other.text());
    assert_eq!(up.end(), 0);
    // Records are pruned at the start.
    for _ in 0..2 {
        let up = folder.up(&[]);
        up.run(&["status"]).exits(0);
        assert_eq!(up.end(), 0);
        assert_eq!(decisions(&folder, "quiet"), 21);
    }
    let size = fs::metadata(folder.path().join("data/sluice.db")).unwrap().len();
    assert!(size < 4 << 20, "{size} bytes");
    folder.run(&["--data", "data", "log", "verify"]).exits(0);
}

/// Records that must be kept are not removed for the size: calls are refused instead, and
/// only those of the agent that uses the space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_grant_cannot_use_up_the_log() {
    let folder = folder("7d");
    let up = folder.up(&[]);
    assert_eq!(list_notes(&up, QUIET).await, 200);
    let keys: Vec<_> = (0..40).map(|key| format!(r#""{key:0100}":1"#)).collect();
    let mut refused = None;
    for number in 0..3_000 {
        let arguments = format!(r#"{{"n{number:0100}":1,{}}}"#, keys.join(","));
        let answer = call(up.listen, LOUD, "not_there", &arguments).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("the log has no end");
    assert_eq!(refused.status, 503);
    for part in ["-32603", r#""side":"gateway""#, "this grant", "audit.max_size"] {
        assert!(refused.text().contains(part), "{}", refused.text());
    }
    assert_eq!(list_notes(&up, LOUD).await, 503);
    for _ in 0..20 {
        assert_eq!(list_notes(&up, QUIET).await, 200);
    }
    let status = up.run(&["status", "--json"]).exits(0).json();
    assert!(status["store"]["log"]["refused"].as_u64().unwrap() >= 2, "{status}");
    assert_eq!(up.end(), 0);
    // What was recorded stays, and the refusal outlives a restart.
    let up = folder.up(&[]);
    assert_eq!(list_notes(&up, LOUD).await, 503);
    assert_eq!(list_notes(&up, QUIET).await, 200);
    assert_eq!(up.end(), 0);
    assert_eq!(decisions(&folder, "quiet"), 22);
}
