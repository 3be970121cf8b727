//! Health probes: connections whose first request asks for `/healthz` or `/readyz`.
//!
//! They are answered on the thread that accepts connections, which never commits, so that
//! a stalled disk does not stop them. A probe over TLS cannot be recognised before the
//! handshake, so with TLS no connection's thread commits.
//!
//! LIMIT: only the first bytes of a connection are looked at. Without TLS, a probe that follows
//! a call on a connection kept alive, or that arrives over HTTP/2, is answered on a thread that
//! commits, and waits while the disk stalls. Probes should open a connection each, as those
//! of Kubernetes and of most load balancers do.

use tokio::net::TcpStream;

/// The first bytes of a probe.
const PROBES: [&[u8]; 4] = [b"GET /healthz", b"GET /readyz", b"HEAD /healthz", b"HEAD /readyz"];
/// The length of the longest of them.
const LONGEST: usize = 13;

/// Waits for the first bytes of a connection, and returns whether they are a probe's. A
/// probe that arrives in several pieces is served like a call.
pub(super) async fn begins_with_probe(stream: &TcpStream) -> bool {
    let mut first = [0; LONGEST];
    let Ok(count) = stream.peek(&mut first).await else { return false };
    let first = first.get(..count).unwrap_or_default();
    PROBES.iter().any(|probe| first.starts_with(probe))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::AsyncWriteExt as _,
        net::{TcpListener, TcpStream},
    };

    use super::{LONGEST, PROBES, begins_with_probe};

    #[tokio::test]
    async fn only_requests_for_healthz_and_readyz_are_probes() {
        assert!(PROBES.iter().all(|probe| probe.len() <= LONGEST));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cases = [
            ("GET /healthz HTTP/1.1\r\n", true),
            ("HEAD /readyz HTTP/1.1\r\n", true),
            ("POST /mcp/healthz HTTP/1.1\r\n", false),
            ("GET /h", false),
            ("", false),
        ];
        for (text, expected) in cases {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            client.write_all(text.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            assert_eq!(begins_with_probe(&stream).await, expected, "{text}");
        }
    }
}
