//! The pool against a scripted server.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::Pool;
use crate::{AnswerBody, SendError, address::Reach};

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// What a server does with each connection, and a pool that leads to it.
async fn server<F>(each: impl Fn(TcpStream) -> F + Send + 'static) -> Arc<Pool>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Uri = format!("http://{}/mcp?a=b", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(each(stream));
        }
    });
    Pool::new(url, Reach { loopback: true, ..Reach::default() }).unwrap()
}

/// Reads one request without a body; `None` if the client has gone.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.ok()? == 0 {
            return None;
        }
        text.push(byte[0]);
    }
    String::from_utf8(text).ok()
}

async fn get(pool: &Arc<Pool>) -> Result<Response<AnswerBody>, SendError> {
    let sent = pool.send(&Request::new(Bytes::new())).await;
    sent.map(|answer| answer.map(|body| AnswerBody::Arriving(Box::new(body))))
}

async fn whole(answer: Response<AnswerBody>) -> Bytes {
    answer.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let pool = server(move |mut stream| {
        let seen = seen.clone();
        async move {
            let port = stream.peer_addr().unwrap().port();
            while let Some(text) = request(&mut stream).await {
                seen.send((port, text)).unwrap();
                stream.write_all(ANSWER.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    for _ in 0..3 {
        assert_eq!(whole(get(&pool).await.unwrap()).await, "ok");
    }
    let (port, text) = requests.recv().await.unwrap();
    assert!(text.starts_with("GET /mcp?a=b HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("host: 127.0.0.1:"), "{text}");
    for _ in 0..2 {
        assert_eq!(requests.recv().await.unwrap().0, port);
    }
}

/// A server that closes each connection after one answer, and then says so.
async fn closing() -> (Arc<Pool>, mpsc::UnboundedReceiver<()>) {
    let (gone, ended) = mpsc::unbounded_channel();
    let pool = server(move |mut stream| {
        let gone = gone.clone();
        async move {
            request(&mut stream).await.unwrap();
            stream.write_all(ANSWER.as_bytes()).await.unwrap();
            drop(stream);
            gone.send(()).unwrap();
        }
    })
    .await;
    (pool, ended)
}

/// Waits until this process can know that the connection was closed: what the
/// system knows of it comes with the next event after it.
async fn noticed(pool: &Pool, ended: &mut mpsc::UnboundedReceiver<()>) {
    ended.recv().await.unwrap();
    TcpStream::connect(pool.url.authority().unwrap().as_str()).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_nothing_but_another() {
    let (pool, mut ended) = closing().await;
    for _ in 0..20 {
        assert_eq!(whole(get(&pool).await.unwrap()).await, "ok");
        noticed(&pool, &mut ended).await;
    }
}

#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let pool = server(move |mut stream| {
        let seen = seen.clone();
        async move {
            request(&mut stream).await.unwrap();
            seen.send(()).unwrap();
        }
    })
    .await;
    assert!(matches!(get(&pool).await, Err(SendError::Lost(_))));
    requests.recv().await.unwrap();
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    let pool = server(|mut stream| async move {
        request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhal").await.unwrap();
    })
    .await;
    let answer = get(&pool).await.unwrap();
    assert!(answer.into_body().collect().await.is_err());
}

#[tokio::test]
async fn nobody_at_the_address_means_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let pool = Pool::new(url, Reach { loopback: true, ..Reach::default() }).unwrap();
    assert!(matches!(get(&pool).await, Err(SendError::NotSent(_))));
}

/// The runtime lets a task do only so much at a time. Whatever is left of that, an
/// answer that has begun is seen, although its connection has no more to tell.
#[tokio::test]
async fn an_answer_is_seen_by_a_task_that_has_done_a_lot() {
    const ALL: usize = 128;
    let pool = server(|mut stream| async move {
        while request(&mut stream).await.is_some() {
            let begun = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n";
            stream.write_all(begun.as_bytes()).await.unwrap();
            // The rest never comes.
            std::future::pending::<()>().await;
        }
    })
    .await;
    for left in 1..8 {
        let pool = Arc::clone(&pool);
        let busy = tokio::spawn(async move {
            let mut sending = std::pin::pin!(get(&pool));
            std::future::poll_fn(|context| {
                for _ in left..ALL {
                    match tokio::task::coop::poll_proceed(context) {
                        std::task::Poll::Ready(done) => done.made_progress(),
                        std::task::Poll::Pending => break,
                    }
                }
                sending.as_mut().poll(context)
            })
            .await
            .unwrap()
            .status()
        });
        let seen = tokio::time::timeout(std::time::Duration::from_secs(10), busy).await;
        assert_eq!(seen.expect("it is never seen").unwrap(), 200, "{left} left");
    }
}

/// Answers the first request with one text, and others with another.
async fn answering(first: &'static str, others: &'static str) -> Arc<Pool> {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    server(move |mut stream| {
        let count = Arc::clone(&count);
        async move {
            while request(&mut stream).await.is_some() {
                let is_first = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
                let text = if is_first { first } else { others };
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn an_unrequested_answer_never_answers_a_later_request() {
    let smuggled = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong";
    let pool = answering(smuggled, ANSWER).await;
    for _ in 0..3 {
        assert_eq!(whole(get(&pool).await.unwrap()).await, "ok");
    }
    let two_lengths = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let pool = answering(two_lengths, ANSWER).await;
    let answer = get(&pool).await.unwrap();
    assert!(!answer.headers().contains_key("content-length"));
    assert_eq!(whole(answer).await, "ok");
    assert!(pool.kept.lock().unwrap().idle.is_empty());
}

#[tokio::test]
async fn a_connection_that_is_to_be_closed_is_not_used_again() {
    let pool =
        answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", ANSWER)
            .await;
    assert_eq!(whole(get(&pool).await.unwrap()).await, "ok");
    assert!(pool.kept.lock().unwrap().idle.is_empty());
    assert_eq!(whole(get(&pool).await.unwrap()).await, "ok");
    assert_eq!(pool.kept.lock().unwrap().idle.len(), 1);
}

#[tokio::test]
async fn an_answer_without_a_length_ends_with_its_connection() {
    let pool = server(|mut stream| async move {
        request(&mut stream).await.unwrap();
        let text = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nall of it";
        stream.write_all(text.as_bytes()).await.unwrap();
    })
    .await;
    let answer = get(&pool).await.unwrap();
    assert!(!answer.headers().contains_key("link"));
    assert_eq!(whole(answer).await, "all of it");
}

#[tokio::test]
async fn an_answer_to_a_request_that_was_not_read_whole_is_seen() {
    let pool = server(|mut stream| async move {
        request(&mut stream).await.unwrap();
        let text = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno";
        stream.write_all(text.as_bytes()).await.unwrap();
        // The rest is not read, and the connection stays open.
        std::future::pending::<()>().await;
    })
    .await;
    let mut long = Request::new(Bytes::from(vec![b'x'; 32 << 20]));
    *long.method_mut() = http::Method::POST;
    let answer = pool.send(&long).await.unwrap();
    assert_eq!(answer.status(), 413);
    assert!(pool.kept.lock().unwrap().idle.is_empty());
}

#[tokio::test]
async fn a_long_request_and_a_long_answer_arrive_whole() {
    const LENGTH: usize = 5 << 20;
    let pool = server(|mut stream| async move {
        while let Some(text) = request(&mut stream).await {
            assert!(text.contains(&format!("content-length: {LENGTH}\r\n")), "{text}");
            let mut body = vec![0; LENGTH];
            stream.read_exact(&mut body).await.unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
        }
    })
    .await;
    let body: Bytes = (0..=250).cycle().take(LENGTH).collect();
    for _ in 0..2 {
        let mut long = Request::new(body.clone());
        *long.method_mut() = http::Method::POST;
        let answer = pool.send(&long).await.unwrap();
        let answer = answer.map(|body| AnswerBody::Arriving(Box::new(body)));
        assert!(whole(answer).await == body);
    }
    assert_eq!(pool.kept.lock().unwrap().idle.len(), 1);
}

#[tokio::test]
async fn a_head_without_an_end_is_given_up() {
    let pool = server(|mut stream| async move {
        request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\na: ").await.unwrap();
        while stream.write_all(&[b'x'; 1024]).await.is_ok() {}
    })
    .await;
    assert!(matches!(get(&pool).await, Err(SendError::Lost(why)) if why.contains("too long")));
}

/// What follows a long answer is no less suspicious than what follows a short one.
#[tokio::test]
async fn a_body_that_is_longer_than_it_says_ends_its_connection() {
    for length in [2, 5000, 100_000] {
        let pool = server(move |mut stream| async move {
            while request(&mut stream).await.is_some() {
                let body = "x".repeat(length + 7);
                let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
        .await;
        for _ in 0..3 {
            assert_eq!(whole(get(&pool).await.unwrap()).await.len(), length);
        }
    }
}

/// A task that has done all it may at a time still sees that a connection was closed.
#[tokio::test]
async fn a_closed_connection_is_noticed_by_a_task_that_has_done_a_lot() {
    let (pool, mut ended) = closing().await;
    assert_eq!(whole(get(&pool).await.unwrap()).await, "ok");
    noticed(&pool, &mut ended).await;
    let mut sending = std::pin::pin!(get(&pool));
    let mut is_first = true;
    let answer = std::future::poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            while let std::task::Poll::Ready(done) = tokio::task::coop::poll_proceed(context) {
                done.made_progress();
            }
        }
        sending.as_mut().poll(context)
    })
    .await;
    assert_eq!(whole(answer.unwrap()).await, "ok");
}

#[tokio::test]
async fn a_request_is_sent_whole_to_a_server_that_answers_as_it_reads() {
    const LENGTH: usize = 32 << 20;
    let pool = server(|mut stream| async move {
        request(&mut stream).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut piece = vec![0; 64 << 10];
        for _ in 0..LENGTH / piece.len() {
            stream.read_exact(&mut piece).await.unwrap();
            stream.write_all(&piece).await.unwrap();
        }
        // It is not closed, so that nothing but the length can end it.
        std::future::pending::<()>().await;
    })
    .await;
    let mut long = Request::new(Bytes::from(vec![b'x'; LENGTH]));
    *long.method_mut() = http::Method::POST;
    let answer = pool.send(&long).await.unwrap();
    let answer = answer.map(|body| AnswerBody::Arriving(Box::new(body)));
    assert_eq!(whole(answer).await.len(), LENGTH);
    assert_eq!(pool.kept.lock().unwrap().idle.len(), 1);
}

#[tokio::test]
async fn the_connection_that_was_idle_for_longest_makes_room() {
    let (gate, opened) = tokio::sync::watch::channel(false);
    let pool = server(move |mut stream| {
        let mut opened = opened.clone();
        async move {
            while request(&mut stream).await.is_some() {
                opened.wait_for(|is_open| *is_open).await.unwrap();
                stream.write_all(ANSWER.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let asked: Vec<_> = (0..super::MOST_IDLE + 3)
        .map(|_| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move { whole(get(&pool).await.unwrap()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    gate.send(true).unwrap();
    for answer in asked {
        assert_eq!(answer.await.unwrap(), "ok");
    }
    assert_eq!(pool.kept.lock().unwrap().idle.len(), super::MOST_IDLE);
}

/// A body that notes when the last copy of it is dropped.
struct Tracked(Arc<Vec<u8>>);

impl AsRef<[u8]> for Tracked {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[tokio::test]
async fn an_idle_connection_keeps_no_body_in_memory() {
    const LENGTH: usize = 1 << 20;
    let pool = server(|mut stream| async move {
        while request(&mut stream).await.is_some() {
            stream.read_exact(&mut vec![0; LENGTH]).await.unwrap();
            stream.write_all(ANSWER.as_bytes()).await.unwrap();
        }
    })
    .await;
    let long = Arc::new(vec![b'x'; LENGTH]);
    let mut ask = Request::new(Bytes::from_owner(Tracked(Arc::clone(&long))));
    *ask.method_mut() = http::Method::POST;
    assert_eq!(
        whole(pool.send(&ask).await.unwrap().map(|body| AnswerBody::Arriving(Box::new(body))))
            .await,
        "ok"
    );
    drop(ask);
    assert_eq!(Arc::strong_count(&long), 1);
}
