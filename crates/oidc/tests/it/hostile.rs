//! A server that answers what no provider should.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// Answers each connection with the same text, in which ADDRESS stands for the server's.
pub(crate) struct Hostile {
    /// `127.0.0.1` and the port.
    pub(crate) address: String,
    connections: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

/// What follows the text of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum After {
    /// The connection is closed.
    Close,
    /// Nothing more comes.
    Silence,
    /// The letter `a`, for ever.
    Noise,
}

impl Hostile {
    pub(crate) async fn start(answer: &str, after: After) -> Hostile {
        Hostile::start_with(answer, after, None).await
    }

    pub(crate) async fn start_with(
        answer: &str,
        after: After,
        tls: Option<TlsAcceptor>,
    ) -> Hostile {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = answer.replace("ADDRESS", &address);
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut all = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                all.spawn(accept(stream, answer.clone(), after, tls.clone()));
            }
        });
        Hostile { address, connections, _task: task }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn accept(stream: TcpStream, answer: String, after: After, tls: Option<TlsAcceptor>) {
    match tls {
        None => reply(stream, &answer, after).await,
        // A client that does not trust the certificate closes the connection.
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                reply(stream, &answer, after).await;
            }
        }
    }
}

async fn reply(stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str, after: After) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    // Up to the end of the request's head; none of these requests has a body that matters.
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).await.unwrap_or_default() == 0 {
            return;
        }
    }
    // A client may close the connection at any time, which is not a failure of the test.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.flush().await;
    match after {
        After::Close => drop(stream.shutdown().await),
        After::Silence => drop(stream.read(&mut [0]).await),
        After::Noise => while stream.write_all(&[b'a'; 4096]).await.is_ok() {},
    }
}

/// An answer with status 200 and a JSON body.
pub(crate) fn json_answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{body}")
}
