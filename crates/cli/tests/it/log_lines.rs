//! A fault that hits every call does not fill the log.

use std::{process::Command, time::Duration};

use sluice_testkit::RawClient;

use crate::{sluice::Folder, up::Up};

const TOKEN: &str = "sg_a_token_for_the_log_lines";
const CALLS: usize = 100;
const FAULT: &str = "could not be re";

/// Calls a tool; the status of the answer.
async fn call(client: &mut RawClient, up: &Up) -> u16 {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_notes","arguments":{}}}"#;
    let head = format!(
        "POST /mcp/notes HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        up.listen,
        body.len()
    );
    client.send(format!("{head}{body}").as_bytes()).await.unwrap();
    client.answer().await.unwrap().unwrap_or_default().status
}

#[tokio::test]
async fn refused_calls_are_logged_a_few_times_and_then_counted() {
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"allow"}"#);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.notes]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n"
        ),
    );
    let up = folder.up(&[]);
    let mut client = RawClient::connect(up.listen).await.unwrap();
    assert_eq!(call(&mut client, &up).await, 200);
    // Nothing can be written any more.
    let limit = ["--pid", &up.pid().to_string(), "--fsize=4096:unlimited"];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    for number in 0..CALLS {
        assert_eq!(call(&mut client, &up).await, 503, "call {number}; log:\n{}", up.log());
    }
    let lines = |text: &str| up.log().lines().filter(|line| line.contains(text)).count();
    assert!((1..=20).contains(&lines(FAULT)), "{}", up.log());
    for _ in 0..300 {
        if lines("log lines were left out") > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(lines("log lines were left out") > 0, "{}", up.log());
}
