//! A gateway that may open few files, and a crowd of clients.

use std::{fs, io::Write as _, net::TcpStream, os::unix::fs::FileTypeExt as _};

use sluice_testkit::RawClient;

use crate::{sluice::Folder, up::Up};

/// As many as some service managers and containers allow.
const FILES: usize = 256;

async fn ask(up: &Up, path: &str) -> u16 {
    let mut client = RawClient::connect(up.listen).await.unwrap();
    let ask = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", up.listen);
    client.send(ask.as_bytes()).await.unwrap();
    client.answer().await.unwrap().unwrap_or_default().status
}

/// A silent client, or one that has sent a part of a request.
fn wait_at(up: &Up, number: usize) -> TcpStream {
    let mut client = TcpStream::connect(up.listen).unwrap();
    let beginning = ["", "PRI * HTTP/2.0\r\n", "POST /mcp/demo HTTP/1.1\r\nhost"][number % 3];
    // It may have been closed already, to make room.
    let _ = client.write_all(beginning.as_bytes());
    client
}

#[tokio::test]
async fn a_gateway_with_few_files_serves_clients_and_says_how_many() {
    let folder = Folder::new();
    let up = folder.up_with_files(FILES, &["--demo"]);
    up.wait_until("it says what it can serve", || up.log().contains("places=96"));
    let crowd: Vec<_> = (0..500).map(|number| wait_at(&up, number)).collect();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(ask(&up, path).await, 200, "{path}");
    }
    for _ in 0..3 {
        let listed = up.run(&["call", "demo", "list_notes"]);
        assert!(listed.exits(0).out.contains("note-1"));
    }
    up.run(&["server", "list"]).exits(0);
    let sockets = fs::read_dir(format!("/proc/{}/fd", up.pid())).unwrap().flatten();
    let sockets = sockets
        .filter_map(|entry| fs::metadata(entry.path()).ok())
        .filter(|file| file.file_type().is_socket());
    assert!(sockets.count() < FILES - FILES / 4, "no reserve is left");
    drop(crowd);
    assert_eq!(up.end(), 0);
}
