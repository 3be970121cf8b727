//! Reads a whole body, within bounds: at once, or piece by piece.

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;

use crate::Pace;

/// Why a body could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollectError<E> {
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    #[error("it broke off")]
    Lost(E),
}

/// The pieces of a body that have arrived, for readers that may be interrupted between them.
#[derive(Debug)]
pub struct Collector {
    most: usize,
    /// Most bodies arrive in one piece, which is not copied.
    first: Option<Bytes>,
    /// All of a body that arrived in several pieces.
    whole: Vec<u8>,
}

/// The body is longer than this many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is longer than {0} bytes")]
pub struct TooLong(pub usize);

impl Collector {
    /// Collects at most `most` bytes.
    pub fn new(most: usize) -> Collector {
        Collector { most, first: None, whole: Vec::new() }
    }

    /// Adds a piece, if it fits.
    pub fn push(&mut self, data: Bytes) -> Result<(), TooLong> {
        if self.len() + data.len() > self.most {
            return Err(TooLong(self.most));
        }
        if self.len() == 0 {
            self.first = Some(data);
            return Ok(());
        }
        if let Some(first) = self.first.take() {
            self.whole = first.into();
        }
        if self.whole.capacity() - self.whole.len() < data.len() {
            // Long bodies are many: growing by half wastes less than doubling.
            self.whole.reserve_exact(data.len().max(self.whole.len() / 2));
        }
        self.whole.extend_from_slice(&data);
        Ok(())
    }

    /// The length of what has arrived.
    #[expect(clippy::len_without_is_empty, reason = "whether it is empty is never asked")]
    pub fn len(&self) -> usize {
        self.first.as_ref().map_or(0, Bytes::len) + self.whole.len()
    }

    /// The whole body.
    pub fn finish(self) -> Vec<u8> {
        match self.first {
            Some(first) => first.into(),
            None => self.whole,
        }
    }
}

/// Reads a whole body of at most `most` bytes.
pub async fn collect<B>(mut body: B, most: usize) -> Result<Vec<u8>, CollectError<B::Error>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut collected = Collector::new(most);
    let mut pace = Pace::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(CollectError::Lost)?.into_data() else { continue };
        pace.note(data.len());
        collected.push(data).map_err(|TooLong(most)| CollectError::TooLong(most))?;
        // Most bodies know their length, so this saves a poll for the end.
        if body.is_end_stream() {
            break;
        }
        pace.turn().await;
    }
    Ok(collected.finish())
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, task::Poll};

    use bytes::Bytes;

    use super::{CollectError, collect};
    use crate::PollBody;

    async fn check(pieces: &[Result<&'static str, ()>], expected: Result<&str, CollectError<()>>) {
        let mut pieces: VecDeque<_> = pieces.iter().copied().collect();
        let body =
            PollBody::new(move |_| Poll::Ready(pieces.pop_front().map(|one| one.map(Bytes::from))));
        assert_eq!(collect(body, 5).await, expected.map(|text| text.as_bytes().to_vec()));
    }

    #[tokio::test]
    async fn a_body_is_read_completely_or_refused() {
        check(&[], Ok("")).await;
        check(&[Ok("abc")], Ok("abc")).await;
        check(&[Ok("ab"), Ok(""), Ok("cde")], Ok("abcde")).await;
        check(&[Ok("abc"), Ok("def")], Err(CollectError::TooLong(5))).await;
        check(&[Ok("abcdef"), Err(())], Err(CollectError::TooLong(5))).await;
        check(&[Ok("abc"), Err(())], Err(CollectError::Lost(()))).await;
    }
}
