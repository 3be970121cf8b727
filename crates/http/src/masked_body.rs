//! An answer without the secrets of its server, which are removed as it arrives.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as _, Frame};
use sluice_wire::secrets::MaskedStream;

use crate::{AnswerBody, BodyError};

/// See the module.
#[derive(Debug)]
pub struct MaskedBody {
    body: AnswerBody,
    stream: MaskedStream,
    has_ended: bool,
}

impl AnswerBody {
    /// This body without the secrets that the stream removes.
    #[must_use]
    pub fn without_secrets(self, stream: MaskedStream) -> AnswerBody {
        match self {
            AnswerBody::Cancelled => AnswerBody::Cancelled,
            body => AnswerBody::Masked(Box::new(MaskedBody { body, stream, has_ended: false })),
        }
    }
}

impl MaskedBody {
    pub(crate) fn was_cancelled(&self) -> bool {
        self.body.was_cancelled()
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.has_ended || (self.body.is_end_stream() && self.stream.holds_nothing())
    }

    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.has_ended {
            let data = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.has_ended = true;
                    let rest = self.stream.finish();
                    if rest.is_empty() || self.body.was_cancelled() {
                        break;
                    }
                    return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                }
            };
            match self.stream.push(&data) {
                None => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(masked) if masked.is_empty() => {}
                Some(masked) => return Poll::Ready(Some(Ok(Frame::data(masked.into())))),
            }
        }
        Poll::Ready(None)
    }
}
