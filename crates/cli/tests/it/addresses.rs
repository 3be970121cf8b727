//! A gateway on all addresses of the machine: what clients are told, and the warning about TLS.

use std::{
    io::Write as _,
    net::{Ipv4Addr, TcpStream},
};

use crate::{sluice::Folder, up::Up};

/// The status line for a request to the agent listener with this `Host`.
fn ask(up: &Up, host: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, up.listen.port())).unwrap();
    let ask = format!(
        "POST /mcp/demo HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

/// The host and port of the agents' URL that was printed at start.
fn told(up: &Up) -> String {
    let line = up.banner.lines().find(|line| line.starts_with("  agents ")).unwrap();
    let (_, rest) = line.split_once("http://").unwrap();
    rest.split_once('/').unwrap().0.to_owned()
}

#[test]
fn clients_are_told_an_address_that_they_can_use() {
    let folder = Folder::new();
    let up = folder.up_at("0.0.0.0:0", &["--demo"]);
    let host = told(&up);
    let mut urls = up.banner.lines().filter(|line| line.contains("://"));
    assert!(!urls.any(|line| line.contains("0.0.0.0")), "{}", up.banner);
    assert!(host.ends_with(&format!(":{}", up.listen.port())), "{host}");
    let created = up.run(&["grant", "create", "demo", "laptop", "--policy", "demo"]).exits(0);
    assert!(created.err.contains(&format!("http://{host}/mcp/demo")), "{created:?}");
    // The host check accepts it; without a token the next check refuses.
    assert!(ask(&up, &host).contains(" 401 "), "{}", ask(&up, &host));
    assert!(ask(&up, "rebound.example.com").contains(" 403 "));
    up.wait_until("it warns", || up.log().contains("agents connect without TLS"));
    assert!(up.log().contains("[tls]"), "{}", up.log());
    // Commands on this machine work as always.
    up.run(&["call", "demo", "list_notes"]).exits(0);
}

#[test]
fn a_host_of_the_configuration_is_told_first_and_loopback_needs_no_warning() {
    let config = "allowed_hosts = [\"gate.example.com\"]\n";
    // Each has a log of its own.
    let folders = [(); 2].map(|()| Folder::with("sluice.toml", config));
    let up = folders[0].up_at("0.0.0.0:0", &[]);
    assert_eq!(told(&up), format!("gate.example.com:{}", up.listen.port()));
    assert_eq!(up.end(), 0);
    let up = folders[1].up(&[]);
    assert_eq!(told(&up), up.listen.to_string());
    up.wait_until("it says how many it can serve", || up.log().contains("places for connections"));
    assert!(!up.log().contains("without TLS"), "{}", up.log());
}
