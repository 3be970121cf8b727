//! Reads a whole body, within bounds.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;

/// Why a body could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollectError<E> {
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    #[error("it broke off")]
    Lost(E),
}

/// Reads a whole body of at most `most` bytes.
pub async fn collect<B>(mut body: B, most: usize) -> Result<Vec<u8>, CollectError<B::Error>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(CollectError::Lost)?.into_data() else { continue };
        let length = first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len();
        if length > most {
            return Err(CollectError::TooLong(most));
        }
        match first {
            None => first = Some(data),
            Some(_) => rest.extend_from_slice(&data),
        }
        // Most bodies know their length, so this saves a poll for the end.
        if body.is_end_stream() {
            break;
        }
    }
    let mut bytes: Vec<u8> = first.unwrap_or_default().into();
    bytes.extend_from_slice(&rest);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, task::Poll};

    use bytes::Bytes;

    use super::{CollectError, collect};
    use crate::Pieces;

    async fn check(pieces: &[Result<&'static str, ()>], expected: Result<&str, CollectError<()>>) {
        let mut pieces: VecDeque<_> = pieces.iter().copied().collect();
        let body =
            Pieces::new(move |_| Poll::Ready(pieces.pop_front().map(|one| one.map(Bytes::from))));
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
