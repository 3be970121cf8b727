//! Running a gateway: trying the demo, editing files under it, and what keeps it
//! from starting.

use std::{fs, net::TcpStream, time::Duration};

use sluice_testkit::{RawClient, Reply, Upstream, mcp_server};

use crate::sluice::Folder;

const TOKEN: &str = "sg_a_token_for_operating_tests";

#[test]
fn the_demo_allows_denies_hides_limits_and_holds() {
    let folder = Folder::new();
    let up = folder.up(&["--demo"]);
    let call = |rest: &[&str]| up.run(&[&["call", "demo"], rest].concat());
    assert!(call(&["list_notes"]).exits(0).out.contains("note-1: Welcome"));
    let denied = call(&["delete_note", "--args", r#"{"id": "note-1"}"#]).exits(1);
    assert_eq!(denied.err, "[POLICY DENIED] tool `delete_note` is not available\n");
    let held =
        call(&["pay_invoice", "--args", r#"{"invoice": "INV-1003", "amount": 250}"#]).exits(1);
    assert!(held.err.starts_with("[APPROVAL REQUIRED]"), "{held:?}");
    for _ in 0..3 {
        assert!(call(&["ping_demo"]).exits(0).out.starts_with("pong"));
    }
    let limited = call(&["ping_demo"]).exits(1);
    assert!(limited.err.starts_with("[POLICY DENIED] "), "{limited:?}");
    let log = up.run(&["log", "--json", "--tool", "delete_note"]).exits(0);
    assert!(log.out.contains("(hidden)") && !log.out.contains("note-1"), "{log:?}");
    assert_eq!(up.end(), 0);
    // All data is in the one file, so that a copy of it is complete.
    assert!(!folder.path().join("data/sluice.db-wal").exists());
}

#[test]
fn what_init_writes_can_be_used_as_it_is() {
    let folder = Folder::new();
    let written = folder.run(&["init", "gate", "--json"]).exits(0).json();
    assert_eq!(written["files"].as_array().unwrap().len(), 2);
    let again = folder.run(&["init", "gate"]).exits(1);
    assert!(again.err.contains("exists already"), "{again:?}");
    folder.run(&["policy", "test", "gate/policies/readers.json"]).exits(0);
    folder.run(&["init", "--json"]).exits(0);
    let up = folder.up(&[]);
    let create = ["grant", "create", "notes", "laptop", "--policy", "readers"];
    let token = up.run(&create).exits(0).out;
    let call = |tool: &str| up.run(&["call", "notes", tool, "--token", token.trim()]);
    assert!(call("list_notes").exits(0).out.contains("note-1"));
    assert!(call("delete_note").exits(1).err.contains("not available"));
}

#[test]
fn an_edit_takes_effect_and_a_bad_one_does_not() {
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"deny"}"#);
    folder.write(
        "sluice.toml",
        "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
         [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"sg_a_token_for_reload_tests\"\n",
    );
    let up = folder.up(&[]);
    let call =
        || up.run(&["call", "notes", "list_notes", "--token", "sg_a_token_for_reload_tests"]).code;
    assert_eq!(call(), 1);
    folder.write("policy.json", r#"{"version":"1","default":"allow"}"#);
    up.wait_until("the edit is in force", || call() == 0);
    folder.write("policy.json", r#"{"version":"1","default":"perhaps"}"#);
    up.wait_until("the problem is shown", || {
        let listed = up.run(&["policy", "list"]);
        listed.err.contains("perhaps") || listed.err.contains("default")
    });
    assert!(up.run(&["server", "list"]).exits(0).err.contains("policy.json"));
    assert_eq!(call(), 0);
    folder.write("policy.json", r#"{"version":"1","default":"deny"}"#);
    up.wait_until("the next good edit is in force", || call() == 1);
    assert_eq!(up.end(), 0);
}

#[test]
fn a_gateway_that_cannot_start_says_why() {
    let folder = Folder::with("sluice.toml", "[servers.x]\nurl = \"nonsense\"\n");
    let ran = folder.run(&["--data", "data", "up"]).exits(2);
    assert!(ran.err.contains("sluice.toml") && ran.err.contains("url"), "{ran:?}");
    let folder = Folder::new();
    let up = folder.up(&[]);
    let taken = up.listen.to_string();
    let ran = folder
        .run(&["--data", "other", "up", "--listen", &taken, "--admin", "127.0.0.1:0"])
        .exits(2);
    assert!(ran.err.contains("--listen"), "{ran:?}");
    let ran = folder
        .run(&["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .exits(2);
    assert!(ran.err.contains("another gateway"), "{ran:?}");
    drop(up);
    fs::remove_file(folder.path().join("data/sluice.db-wal")).unwrap();
    folder.write("data/sluice.db", "this is not a database, whatever its name may say");
    let ran = folder
        .run(&["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .exits(2);
    assert!(ran.err.contains("sluice.db"), "{ran:?}");
    let ran = folder.run(&["--data", "gone", "server", "list"]).exits(2);
    assert!(ran.err.contains("data directory `gone` does not exist"), "{ran:?}");
}

#[test]
fn a_grant_is_edited_rotated_and_revoked_by_its_label() {
    let folder = Folder::new();
    let up = folder.up(&["--demo"]);
    folder.write("none.json", r#"{"version":"1","default":"deny"}"#);
    up.run(&["policy", "put", "demo", "none", "none.json"]).exits(0);
    let created = up.run(&["grant", "create", "demo", "laptop", "--policy", "demo"]).exits(0);
    let first = created.out.trim().to_owned();
    assert!(first.starts_with("sg_") && !created.err.contains(&first), "{created:?}");
    assert!(created.err.contains("Bearer $SLUICE_TOKEN"), "{created:?}");
    let taken = up.run(&["grant", "create", "demo", "laptop", "--policy", "demo"]).exits(1);
    assert!(taken.err.contains("there is already a grant `laptop`"), "{taken:?}");
    let shown = || up.run(&["grant", "show", "laptop", "--json"]).exits(0).json();
    assert!(shown()["last_used"].is_null() && shown()["created_by"] == "admin token");
    let call = |token: &str| up.run(&["call", "demo", "list_notes", "--token", token]);
    call(&first).exits(0);
    assert!(shown()["last_used"].is_string(), "{}", shown());

    // The old token works during the overlap, and an edit reaches both.
    let rotated = up.run(&["grant", "rotate", "laptop", "--overlap", "10m"]).exits(0);
    let second = rotated.out.trim().to_owned();
    call(&first).exits(0);
    call(&second).exits(0);
    let edited = up.run(&["grant", "edit", "laptop", "--policy", "none", "--label", "desk"]);
    assert!(edited.exits(0).out.contains("policy     none"));
    for token in [&first, &second] {
        assert!(call(token).exits(1).err.contains("is not available"));
    }
    up.run(&["grant", "edit", "desk"]).exits(2);
    up.run(&["grant", "show", "laptop"]).exits(1);
    up.run(&["grant", "revoke", "desk"]).exits(0);
    for token in [&first, &second] {
        assert!(call(token).exits(2).err.contains("token rejected (401)"));
    }
    // The label is free again, and what is known of a use survives the gateway.
    up.run(&["grant", "create", "demo", "desk", "--policy", "demo", "--expires", "1d"]).exits(0);
    let id = shown_id(&up.run(&["grant", "list", "--json"]).exits(0).json());
    assert_eq!(up.end(), 0);
    let up = folder.up(&["--demo"]);
    assert!(up.run(&["grant", "show", &id, "--json"]).exits(0).json()["last_used"].is_string());
}

/// The id of the revoked grant in a list.
fn shown_id(listed: &serde_json::Value) -> String {
    let grants = listed["grants"].as_array().unwrap();
    let revoked = grants.iter().find(|grant| grant["state"] == "revoked").unwrap();
    revoked["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_under_way_finishes_before_the_gateway_ends() {
    let (reply, say) = Reply::later();
    let others = mcp_server("[]");
    let upstream = Upstream::start(move |request| match request.rpc_method().as_deref() {
        Some("tools/call") => reply.clone(),
        _ => others(request),
    });
    let upstream = upstream.await.unwrap();
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"allow"}"#);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.slow]\nurl = \"{}\"\n\
             [policies.p]\nserver = \"slow\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"slow\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n",
            upstream.url(),
        ),
    );
    let up = tokio::task::block_in_place(|| folder.up(&[]));
    let listen = up.listen;
    let mut client = RawClient::connect(listen).await.unwrap();
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}"#;
    let request = format!(
        "POST /mcp/slow HTTP/1.1\r\nhost: {listen}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.send(request.as_bytes()).await.unwrap();
    tokio::task::block_in_place(|| {
        up.wait_until("the server has the call", || !upstream.bodies_of("tools/call").is_empty());
    });
    let ended = tokio::task::spawn_blocking(|| up.end());
    // Nobody new is let in, and the call is waited for.
    while TcpStream::connect(listen).is_ok() {
        assert!(!ended.is_finished(), "it ends without its last call");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!ended.is_finished(), "it ends without its last call");
    say.send(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#.into()).unwrap();
    let answer = client.answer().await.unwrap().unwrap();
    assert_eq!((answer.status, answer.is_whole), (200, true), "{answer:?}");
    assert!(answer.text().contains(r#""id":7"#), "{answer:?}");
    assert_eq!(ended.await.unwrap(), 0);
}
