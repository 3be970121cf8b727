//! Writing messages to the client, one per line.

use bytes::Bytes;
use sluice_http::sse::Decoder;
use sluice_stdio::single_line;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
};

/// Writes messages, which arrive as events, until there are no more or the client has
/// closed its side.
pub(super) async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut said: mpsc::Receiver<Bytes>,
    mut is_done: oneshot::Receiver<()>,
) {
    loop {
        let event = tokio::select! {
            biased;
            event = said.recv() => event,
            _ = &mut is_done => said.try_recv().ok(),
        };
        let Some(event) = event else { return };
        let Some(line) = line(&event) else { continue };
        let written = async {
            output.write_all(line.as_bytes()).await?;
            output.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// The message in an event; `None` if there is none, as in a keep-alive.
fn line(event: &[u8]) -> Option<String> {
    let mut data = None;
    Decoder::new(event.len()).push(event, |event| data = event.into_message()).ok()?;
    let mut line = single_line(data?);
    line.push('\n');
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::line;
    use sluice_http::sse::Event;

    #[test]
    fn a_message_is_written_as_one_line() {
        let check = |event: &[u8], expected: Option<&str>| {
            assert_eq!(line(event).as_deref(), expected);
        };
        check(&Event::message("{\"a\":\n 1}").encode(), Some("{\"a\":  1}\n"));
        check(b"event: message\ndata: {}\n\n", Some("{}\n"));
        check(b":\n\n", None);
        check(b"id: 1\ndata:\n\n", None);
    }
}
