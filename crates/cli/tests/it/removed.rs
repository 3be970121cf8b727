//! Files of a running gateway that are removed, renamed, replaced or truncated: within a moment
//! it refuses calls and says why, and nothing starts beside it.

use std::{
    fs::{self, OpenOptions},
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use crate::{sluice::Folder, up::Up};

const TOKEN: &str = "sg_a_token_for_removed_files";

fn folder() -> Folder {
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"allow"}"#);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n",
        ),
    );
    folder
}

/// Sends one request to the agents' listener; the whole answer.
fn ask(up: &Up, request: &str) -> String {
    let mut stream = TcpStream::connect(up.listen).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ready(up: &Up) -> String {
    ask(up, &format!("GET /readyz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", up.listen))
}

fn call(up: &Up) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_notes","arguments":{}}}"#;
    let (address, length) = (up.listen, body.len());
    let request = format!(
        "POST /mcp/notes HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    ask(up, &request)
}

/// What is done to the data directory, and whether the database is still where it was.
type Damage = (&'static str, fn(&Path));

const DAMAGES: &[Damage] = &[
    ("the database is removed", |data| fs::remove_file(data.join("sluice.db")).unwrap()),
    ("the database is renamed", |data| {
        fs::rename(data.join("sluice.db"), data.join("other.db")).unwrap();
    }),
    ("the database is replaced", |data| {
        fs::copy(data.join("sluice.db"), data.join("copy.db")).unwrap();
        fs::rename(data.join("copy.db"), data.join("sluice.db")).unwrap();
    }),
    ("the database is truncated", |data| {
        let file = OpenOptions::new().write(true).open(data.join("sluice.db")).unwrap();
        file.set_len(0).unwrap();
    }),
    ("the write-ahead log is removed", |data| {
        fs::remove_file(data.join("sluice.db-wal")).unwrap();
    }),
    ("the write-ahead log is truncated", |data| {
        let file = OpenOptions::new().write(true).open(data.join("sluice.db-wal")).unwrap();
        file.set_len(32).unwrap();
    }),
    ("the shared memory is removed", |data| fs::remove_file(data.join("sluice.db-shm")).unwrap()),
    ("the head is removed", |data| fs::remove_file(data.join("keys/head")).unwrap()),
    ("the directory is renamed", |data| fs::rename(data, data.with_extension("old")).unwrap()),
    ("the directory is removed", |data| fs::remove_dir_all(data).unwrap()),
];

#[test]
fn calls_are_refused_when_files_are_gone() {
    for (what, damage) in DAMAGES {
        let folder = folder();
        let up = folder.up(&[]);
        assert!(call(&up).starts_with("HTTP/1.1 200"), "{what}: {}", call(&up));
        assert!(ready(&up).starts_with("HTTP/1.1 200"), "{what}");
        damage(&folder.path().join("data"));
        up.wait_until(what, || ready(&up).starts_with("HTTP/1.1 503"));
        let refused = call(&up);
        assert!(refused.starts_with("HTTP/1.1 503"), "{what}: {refused}");
        up.wait_until(what, || up.log().contains("while it was in use"));
        if !what.contains("directory") {
            let status = up.run(&["status"]).exits(1);
            assert!(status.out.contains("while it was in use"), "{what}: {status:?}");
        }
        up.kill();
        // What starts on the rest does not begin anew with limits of its own.
        if !["directory", "replaced", "memory"].iter().any(|word| what.contains(word)) {
            let wrap = ["--data", "data", "wrap", "--policy", "policy.json", "--", "true"];
            let refused = folder.run(&wrap).exits(2);
            assert!(refused.err.contains("--accept-loss"), "{what}: {refused:?}");
        }
    }
}

/// It would have limits of its own.
#[test]
fn no_second_database_is_made_where_a_gateway_has_lost_its_own() {
    let removals: [fn(&Path); 2] = [
        |data| fs::rename(data, data.with_extension("old")).unwrap(),
        |data| fs::remove_dir_all(data).unwrap(),
    ];
    for remove in removals {
        let folder = folder();
        let data = folder.path().join("data");
        let up = folder.up(&[]);
        assert!(call(&up).starts_with("HTTP/1.1 200"), "{}", call(&up));
        remove(&data);
        let others = [
            &["wrap", "--policy", "policy.json", "--", "true"][..],
            &["up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
        ];
        for other in others {
            let refused = folder.run(&[&["--data", "data"], other].concat()).exits(2);
            assert!(refused.err.contains("were removed or renamed"), "{refused:?}");
            assert!(!data.join("sluice.db").exists() && !data.join("keys").exists(), "{other:?}");
        }
        up.kill();
        // Nobody uses them any more, so it is a fresh directory.
        folder.run(&["--data", "data", "wrap", "--policy", "policy.json", "--", "true"]).exits(0);
        assert!(data.join("sluice.db").exists());
    }
}

#[test]
fn a_file_that_is_put_back_ends_the_refusal() {
    let folder = folder();
    let up = folder.up(&[]);
    let (here, there) = (folder.path().join("data"), folder.path().join("away"));
    fs::rename(&here, &there).unwrap();
    up.wait_until("refused", || ready(&up).starts_with("HTTP/1.1 503"));
    fs::rename(&there, &here).unwrap();
    up.wait_until("served again", || ready(&up).starts_with("HTTP/1.1 200"));
    assert!(call(&up).starts_with("HTTP/1.1 200"));
    up.run(&["log", "verify"]).exits(0);
}
