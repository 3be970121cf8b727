//! How long calls wait for a stream.

use tokio::time::Instant;

use super::{STREAM_WAIT, Stream};

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_late_stream_only_once() {
    let stream = Stream::default();
    let since = Instant::now();
    stream.ready().await;
    assert!(since.elapsed() >= STREAM_WAIT);
    let since = Instant::now();
    stream.ready().await;
    stream.ready().await;
    assert!(since.elapsed() < STREAM_WAIT / 2, "{:?}", since.elapsed());
}
