//! Servers that cannot be scanned: what went wrong is said, and nothing is left.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
};

use crate::{
    sluice::{Folder, Ran},
    stdio::{SERVER, runs, until},
};

fn scan(folder: &Folder, script: &str) -> Ran {
    folder.run(&["scan", "--timeout", "2s", "--", "sh", "-c", script])
}

#[test]
fn a_server_that_never_answers_is_left_and_ended() {
    let folder = Folder::new();
    let told = scan(&folder, "echo $$ > pid; echo loading >&2; sleep 1000").exits(2);
    assert!(told.err.contains("did not answer within 2s"), "{}", told.err);
    assert!(told.err.contains("  loading") && told.err.contains("--timeout 5m"), "{}", told.err);
    assert_eq!(told.out, "");
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    until("the server ends", || !runs(pid.trim()));
}

#[test]
fn the_last_words_of_a_server_that_ends_are_shown() {
    let folder = Folder::new();
    let script = "for n in 1 2 3 4 5 6 7 8 9; do echo line $n >&2; done; \
                  printf 'set \\033[31mAPI_KEY\\033[0m\\007\\n' >&2; exit 3";
    let told = scan(&folder, script).exits(2);
    assert!(told.err.contains("ended (exit status: 3)"), "{}", told.err);
    assert!(told.err.contains("  line 9\n  set API_KEY\n"), "{}", told.err);
    assert!(!told.err.contains("line 2"), "{}", told.err);
    // It was started once more, in the old way, and only that is told of.
    assert_eq!(told.err.matches("line 9").count(), 1, "{}", told.err);
    let silent = scan(&folder, "exit 0").exits(2);
    assert!(silent.err.contains("wrote nothing"), "{}", silent.err);
}

#[test]
fn a_missing_command_is_an_error_with_a_hint() {
    let told = Folder::new().run(&["scan", "--", "no-such-program"]).exits(2);
    assert!(told.err.contains("`no-such-program` is not found\nhint:"), "{}", told.err);
}

#[test]
fn a_command_without_dashes_before_it_gets_a_hint() {
    let folder = Folder::new();
    let hint = "hint: put `--` before the command";
    for words in [&["scan", "npx", "-y", "notes"][..], &["wrap", "--policy", "p.json", "npx"]] {
        let told = folder.run(words).exits(2);
        assert!(told.err.contains("'npx'") && told.err.contains(hint), "{}", told.err);
    }
    let told = folder.run(&["scan", "--ulr", "x"]).exits(2);
    assert!(!told.err.contains(hint), "{}", told.err);
    let told = folder.run(&["scan"]).exits(2);
    assert!(told.err.contains("COMMAND") && told.err.contains("--url"), "{}", told.err);
}

#[test]
fn garbage_on_standard_output_is_passed_over_or_told() {
    let folder = Folder::new();
    let told = scan(&folder, "echo 'Listening on port 80'; cat > heard").exits(2);
    assert!(told.err.contains("  Listening on port 80"), "{}", told.err);
    assert!(told.err.contains("probably not an MCP server"), "{}", told.err);
    let told = scan(&folder, "exec yes garbage").exits(2);
    assert_eq!(told.err.matches("garbage").count(), 1, "{}", told.err);
    let told = scan(&folder, "exec cat").exits(2);
    assert!(told.err.contains("echoes its input"), "{}", told.err);
    let honest = format!("echo 'Debug: hello'; exec {SERVER}");
    assert!(scan(&folder, &honest).exits(0).out.contains("echo"));
}

#[test]
fn an_error_instead_of_a_list_is_shown() {
    let folder = Folder::new();
    let script = "while read -r line; do id=${line#*\\\"id\\\":}; id=${id%%,*}; case $line in \
        *initialize\\\"*) echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"result\\\":{\\\"protocolVersion\\\":\\\"2025-06-18\\\",\\\"capabilities\\\":{}}}\";; \
        *notifications*) ;; \
        *) echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"error\\\":{\\\"code\\\":-32601,\\\"message\\\":\\\"no tools here\\\"}}\";; esac; done";
    let told = scan(&folder, script).exits(2);
    assert!(told.err.contains("refused `tools/list`: no tools here"), "{}", told.err);
}

#[test]
fn servers_of_each_era_and_of_odd_manners_are_scanned() {
    let folder = Folder::new();
    // Those that do not know the first question, end at it, or never answer it.
    for (mode, revision) in [
        ("legacy", "2025-06-18"),
        ("fragile", "2025-06-18"),
        ("deaf", "2025-06-18"),
        ("early", "2025-06-18"),
        ("strict", "2026-07-28"),
        ("slow", "2026-07-28"),
    ] {
        let scan = folder.run(&["scan", "--json", "--", SERVER, mode]).exits(0).json();
        assert_eq!(scan["server"]["protocol"], revision, "{mode}");
        assert_eq!(scan["tools"][0]["name"], "echo", "{mode}");
    }
}

/// A server that answers every request with these lines.
fn answering(lines: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut heard = Vec::new();
            while !heard.ends_with(b"}") && !heard.windows(4).any(|part| part == b"\r\n\r\n") {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).unwrap_or_default();
                if read == 0 {
                    break;
                }
                heard.extend_from_slice(&part[..read]);
            }
            let _ = stream.write_all(lines.as_bytes());
        }
    });
    format!("http://{address}/mcp")
}

#[test]
fn a_url_that_is_not_a_server_is_an_error() {
    let folder = Folder::new();
    let check = |url: &str, expected: &[&str]| {
        let told = folder.run(&["scan", "--timeout", "20s", "--url", url]).exits(2);
        assert!(expected.iter().all(|part| told.err.contains(part)), "{url}: {}", told.err);
    };
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check(&format!("http://{unused}/mcp"), &["no connection", "hint: is it running"]);
    check(
        &answering("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        &["status 401", "hint: give its credential", "--header 'Authorization: env:NAME'"],
    );
    check(
        &answering(
            "HTTP/1.1 301 Moved\r\nlocation: /x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        ),
        &["status 301", "hint: redirects are not followed"],
    );
    check(
        &answering(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>",
        ),
        &["the server cannot be scanned", "it is no JSON but `text/html`"],
    );
}
