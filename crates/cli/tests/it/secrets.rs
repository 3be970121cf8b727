//! Secrets of the gateway's owner: neither printed, nor in clear in its files.

use std::{fs, path::Path};

use sluice_testkit::{Recorded, Upstream, mcp_server};

use crate::{
    sluice::Folder,
    up::{INSPECTED, Up},
};

/// Parts of URLs that give access.
const SECRETS: [&str; 6] =
    ["canary-path", "canary-query", "canary-new", "canary-file", "canary-value", "canary-refused"];

#[track_caller]
fn shows_no_secret(what: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{what} has {secret}: {text}");
    }
}

/// All files below a folder, with their names.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        if path.is_dir() {
            return files(&path);
        }
        vec![(path.display().to_string(), fs::read(&path).unwrap_or_default())]
    };
    entries.flat_map(read).collect()
}

/// What an owner sees of it.
fn outputs(up: &Up) -> Vec<String> {
    let authorization = format!("Authorization: Bearer {}\r\n", up.admin_token());
    let mut all: Vec<_> = [
        &["server", "list"][..],
        &["server", "list", "--json"],
        &["server", "show", "shop"],
        &["server", "show", "shop", "--json"],
        &["server", "show", "declared"],
        &["server", "tools", "shop"],
        &["server", "tools", "declared"],
        &["call", "shop", "read"],
        &["config"],
        &["config", "--json"],
        &["status"],
        &["doctor"],
        &["log"],
        &["log", "export"],
        &["server", "add", "refused", "--url", "https://me:canary-refused@host/mcp"],
        &["server", "add", "refused", "--url", "https://ho st/canary-refused"],
        &["server", "edit", "shop", "--url", "ftp://host/canary-refused"],
    ]
    .iter()
    .map(|arguments| {
        let ran = up.run(arguments);
        ran.out + &ran.err
    })
    .collect();
    for path in ["servers", "servers/shop", "servers/declared", "status", "audit"] {
        all.push(up.ask_admin(&format!("/api/v1/{path}"), &authorization));
    }
    all.push(up.metrics());
    all.push(up.log());
    all
}

fn nothing_shows_a_secret(up: &Up, folder: &Folder) {
    for text in outputs(up) {
        shows_no_secret("an output", &text);
    }
    let files = files(&folder.path().join("data"));
    assert!(files.iter().any(|(name, bytes)| name.ends_with("sluice.db-wal") && !bytes.is_empty()));
    for (name, bytes) in files {
        shows_no_secret(&name, &String::from_utf8_lossy(&bytes));
    }
}

fn call(up: &Up, token: &str) {
    let called = up.run(&["call", "shop", "read", "--token", token]);
    assert!(called.out.contains("done"), "{called:?}; {}", up.log());
}

/// The path under which the server was called last.
fn called_at(server: &Upstream) -> Option<String> {
    let is_call = |request: &Recorded| request.rpc_method().as_deref() == Some("tools/call");
    server.requests().into_iter().rfind(is_call).map(|request| request.path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_in_urls_are_sealed_and_never_shown() {
    let server = Upstream::start(mcp_server(r#"[{"name":"read"}]"#)).await.unwrap();
    let at = |path: &str| format!("http://{}/{path}", server.address);
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"allow"}"#);
    folder.write("url", "https://127.0.0.1:9/canary-value/mcp\n");
    folder.write(
        "sluice.toml",
        "[upstreams]\nallow_private = [\"127.0.0.0/8\"]\n\
         [servers.declared]\nurl = \"https://127.0.0.1:9/canary-file/mcp?key=canary-query\"\n\
         [servers.referred]\nurl = \"file:url\"\n",
    );
    let up = folder.up(&[]);
    let old = at("canary-path/mcp?key=canary-query");
    folder.write("secret-url", &old);
    up.run(&["server", "add", "shop", "--url", "file:secret-url"]).exits(0);
    up.run(&["policy", "put", "shop", "open", "policy.json"]).exits(0);
    let grant = ["grant", "create", "shop", "me", "--policy", "open", "--json"];
    let token = up.run(&grant).exits(0).json()["token"].as_str().unwrap().to_owned();
    call(&up, &token);
    assert_eq!(called_at(&server).unwrap(), "/canary-path/mcp");
    let shown = format!("http://{}/…", server.address);
    assert_eq!(up.run(&["server", "show", "shop", "--json"]).exits(0).json()["url"], shown);
    let config = up.run(&["config"]).exits(0).out;
    assert_eq!(config.matches("url = \"https://127.0.0.1:9/…\"").count(), 2, "{config}");
    nothing_shows_a_secret(&up, &folder);
    // It goes on with the URL that nobody has to type again, and with a new one.
    up.run(&["server", "edit", "shop", "--timeout", "30s"]).exits(0);
    assert_eq!(up.end(), 0);
    let up = folder.up(&[]);
    server.take();
    call(&up, &token);
    assert_eq!(called_at(&server).unwrap(), "/canary-path/mcp");
    up.run(&["server", "edit", "shop", "--url", &at("canary-new/mcp")]).exits(0);
    call(&up, &token);
    assert_eq!(called_at(&server).unwrap(), "/canary-new/mcp");
    nothing_shows_a_secret(&up, &folder);
    // What is no secret can be read.
    up.run(&["server", "edit", "shop", "--url", &server.url()]).exits(0);
    assert_eq!(up.run(&["server", "show", "shop", "--json"]).exits(0).json()["url"], server.url());
}

fn core_limit(up: &Up) -> String {
    let limits = fs::read_to_string(format!("/proc/{}/limits", up.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    line.split_whitespace().nth(4).unwrap().to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn a_crash_leaves_no_core_dump_unless_that_is_asked_for() {
    use std::os::unix::process::ExitStatusExt as _;
    let before = "ulimit -c unlimited";
    let folder = Folder::new();
    let up = folder.up_after(before, &[]);
    assert_eq!(core_limit(&up), "0");
    let status = up.abort();
    assert_eq!(status.signal(), Some(6), "{status}");
    assert!(!status.core_dumped(), "{status}");
    let up = folder.up_after(before, &[INSPECTED]);
    assert_eq!(core_limit(&up), "unlimited");
    // Some machines write none at all.
    let other = folder.command("sh").args(["-c", &format!("{before}; kill -ABRT $$")]).status();
    assert_eq!(up.abort().core_dumped(), other.unwrap().core_dumped());
}

/// The writable memory of a process: its heap, stacks and variables.
#[cfg(target_os = "linux")]
fn memory(pid: u32) -> Vec<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let file = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let regions = maps.lines().filter(|line| line.contains(" rw")).filter_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let mut bytes = vec![0; usize::try_from(number(end) - number(start)).unwrap()];
        file.read_exact_at(&mut bytes, number(start)).ok()?;
        Some(bytes)
    });
    regions.collect()
}

/// Whether a text is anywhere in it.
#[cfg(target_os = "linux")]
fn has(memory: &[Vec<u8>], text: &str) -> bool {
    let finder = |bytes: &Vec<u8>| {
        let mut rest = bytes.as_slice();
        let first = text.as_bytes()[0];
        while let Some(at) = rest.iter().position(|byte| *byte == first) {
            rest = &rest[at..];
            if rest.starts_with(text.as_bytes()) {
                return true;
            }
            rest = &rest[1..];
        }
        false
    };
    memory.iter().any(finder)
}

/// The token and the key are read once, also where they have just been made.
#[test]
#[cfg(target_os = "linux")]
fn tokens_and_keys_do_not_stay_in_memory_as_they_were_read() {
    let folder = Folder::new();
    for _ in 0..2 {
        let up = folder.up_with(&[INSPECTED], &[]);
        let key = fs::read_to_string(folder.path().join("data/keys/master")).unwrap();
        // Then the token is hashed. No request may bring it.
        assert!(up.ask_admin("/healthz", "").contains("200 OK"));
        let memory = memory(up.pid());
        assert!(has(&memory, INSPECTED.0), "the memory was not read");
        assert!(!has(&memory, key.trim()), "the key is there");
        assert!(!has(&memory, &up.admin_token()), "the admin token is there");
        assert_eq!(up.end(), 0);
    }
}
