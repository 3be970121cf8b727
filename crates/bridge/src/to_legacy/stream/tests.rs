//! How long calls wait for a stream.

use tokio::time::Instant;

use super::{STREAM_WAIT, Stream};

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_late_is_waited_for_once() {
    let stream = Stream::default();
    let since = Instant::now();
    stream.ready().await;
    assert!(since.elapsed() >= STREAM_WAIT);
    let since = Instant::now();
    stream.ready().await;
    stream.ready().await;
    assert!(since.elapsed() < STREAM_WAIT / 2, "{:?}", since.elapsed());
}
