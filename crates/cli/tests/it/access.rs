//! Who may manage and call a gateway: tokens that cannot be guessed, guesses that are
//! limited and recorded, and metrics that not everybody may read.

use std::net::Ipv4Addr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
};

use crate::{sluice::Folder, up::Up};

const TOKEN: &str = "sg_a_token_for_tests_of_access";

fn folder() -> Folder {
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"allow"}"#);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.notes]\nbuiltin = \"demo\"\n[servers.others]\nbuiltin = \"demo\"\n\
             [policies.p]\nservers = [\"notes\", \"others\"]\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n"
        ),
    );
    folder
}

/// The status of an answer.
fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn guess(up: &Up, number: usize) -> String {
    up.ask_admin("/api/v1/status", &format!("Authorization: Bearer sga_guess_{number}\r\n"))
}

/// The messages of all records of failed authentications.
fn failures(up: &Up) -> Vec<serde_json::Value> {
    let log = up.run(&["log", "export"]).exits(0).out;
    let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
    records.filter(|record: &serde_json::Value| record["kind"] == "auth").collect()
}

#[test]
fn an_admin_token_that_could_be_guessed_is_refused_at_start() {
    let folder = folder();
    let mut command = folder.command(crate::sluice::BINARY);
    command
        .args(["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .env("SLUICE_ADMIN_TOKEN", "a");
    let refused = crate::sluice::Ran::from(command.output().unwrap()).exits(2);
    assert!(refused.err.contains("`SLUICE_ADMIN_TOKEN` is shorter than 32"), "{refused:?}");
    assert!(refused.err.contains("hint: `openssl rand -hex 32`"), "{refused:?}");
}

#[test]
fn guesses_are_limited_and_recorded_also_at_shutdown() {
    let folder = folder();
    let up = folder.up(&[]);
    let answers: Vec<_> = (0..100).map(|number| guess(&up, number)).collect();
    let limited: Vec<_> = answers.iter().filter(|answer| status(answer) == "429").collect();
    // A minute may end in between.
    assert!(limited.len() >= 60, "{}", limited.len());
    assert!(limited.iter().all(|answer| answer.contains("retry-after: ")), "{limited:?}");
    // The right token is accepted all the same.
    up.run(&["status"]).exits(0);
    assert_eq!(up.end(), 0);
    let up = folder.up(&[]);
    let messages = failures(&up);
    let counts = messages.iter().filter_map(|record| {
        let message = record["message"].as_str()?;
        let (count, _) = message.strip_prefix("admin API: ")?.split_once(" more failed")?;
        count.parse::<usize>().ok()
    });
    let alone = messages.iter().filter(|record| {
        record["message"].as_str().is_some_and(|message| message.contains("not the admin token"))
    });
    assert_eq!(counts.sum::<usize>() + alone.count(), 100, "{messages:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_addresses_do_not_make_room_for_further_guesses() {
    let folder = folder();
    let up = folder.up(&[]);
    let head = format!("Host: {}\r\nConnection: close\r\n", up.admin);
    let guess = format!("GET /api/v1/status HTTP/1.1\r\n{head}Authorization: Bearer x\r\n\r\n");
    let mut limited = 0;
    for host in 0..600 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::from_bits(0x7f01_0000 + host), 0).into()).unwrap();
        let mut stream = socket.connect(up.admin).await.unwrap();
        stream.write_all(guess.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        limited += usize::from(status(&answer) == "429");
    }
    // A minute may end in between.
    assert!(limited >= 350, "{limited}");
    up.run(&["status"]).exits(0);
}

#[test]
fn a_call_of_a_server_that_a_token_is_not_for_is_recorded() {
    let folder = folder();
    let up = folder.up(&[]);
    let called = up.run(&["call", "others", "list_notes", "--token", TOKEN]).exits(2);
    assert!(called.err.contains("does not include server `others`"), "{called:?}");
    let is_of_others = |record: &serde_json::Value| record["server"] == "others";
    up.wait_until("it is recorded", || failures(&up).iter().any(is_of_others));
    let recorded = failures(&up);
    let record = recorded.iter().find(|record| is_of_others(record)).unwrap();
    assert_eq!(record["grant"]["id"], "file:g", "{record}");
    let message = record["message"].as_str().unwrap();
    assert!(message.contains("does not include this server"), "{record}");
    assert!(message.contains("from 127.0.0.1"), "{record}");
}

#[test]
fn metrics_need_the_admin_token_unless_they_are_open() {
    let folder = folder();
    let up = folder.up(&[]);
    assert_eq!(status(&up.ask_admin("/metrics", "")), "401");
    assert!(up.metrics().contains("sluice_in_flight"), "{}", up.metrics());
    assert_eq!(up.end(), 0);
    let text = std::fs::read_to_string(folder.path().join("sluice.toml")).unwrap();
    folder.write("sluice.toml", &format!("metrics = \"open\"\n{text}"));
    let up = folder.up(&[]);
    let open = up.ask_admin("/metrics", "");
    assert_eq!(status(&open), "200", "{open}");
    assert!(folder.run(&["config"]).exits(0).out.contains("metrics = \"open\""));
}
