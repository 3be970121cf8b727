//! The parsers of HTTP/1.1 answers: they agree with hyper, wherever the answer is cut, and a
//! connection is never reused after an answer whose end is in doubt.

mod hyper_client;

use bytes::BytesMut;
use hyper::{
    HeaderMap, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING},
};
use sluice_http::http1::{Framing, Head, Piece};

use crate::cuts::cut;

/// Reasons to refuse an answer that hyper shares. For others we are stricter on purpose.
const SHARED: [&str; 3] = [
    "its transfer coding is not one of HTTP/1.0",
    "it has too many headers",
    "a chunk of it is longer than it says",
];

/// An answer as it is read from a connection.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    head: Option<Head>,
    body: Vec<u8>,
    end: End,
    /// The bytes that were not used.
    unread: BytesMut,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum End {
    Whole,
    /// The connection ended before.
    #[default]
    Cut,
    Refused(&'static str),
}

/// Takes the input for all that a server sends before it closes the connection.
pub fn check(data: &[u8]) {
    let answer = Answer::read([data]);
    assert_eq!(Answer::read(data.chunks(1)), answer, "byte by byte");
    assert_eq!(Answer::read(cut(data)), answer, "in pieces");
    assert!(data.ends_with(&answer.unread), "{answer:?}");
    assert!(answer.body.len() + answer.unread.len() <= data.len(), "{answer:?}");
    check_agreement(data, &answer);
}

impl Answer {
    fn read<'d>(pieces: impl IntoIterator<Item = &'d [u8]>) -> Answer {
        let (mut answer, mut searched) = (Answer::default(), 0);
        for piece in pieces {
            answer.unread.extend_from_slice(piece);
            if matches!(answer.end, End::Refused(_)) {
                continue;
            }
            if let Err(why) = answer.go_on(&mut searched) {
                answer.end = End::Refused(why);
            }
        }
        answer.close();
        answer
    }

    /// Reads on as far as possible.
    fn go_on(&mut self, searched: &mut usize) -> Result<(), &'static str> {
        if self.head.is_none() {
            self.head = Head::take(&mut self.unread, searched)?;
        }
        let Some(Head { framing, .. }) = &mut self.head else { return Ok(()) };
        loop {
            let (remaining, unread) = (framing.remaining(), self.unread.len());
            match framing.take(&mut self.unread)? {
                Piece::Data(data) => {
                    assert!(!data.is_empty(), "an empty piece looks like the end");
                    assert!(self.unread.len() + data.len() <= unread, "more than was given");
                    let left = remaining.map(|remaining| remaining - data.len() as u64);
                    assert_eq!(framing.remaining(), left);
                    self.body.extend_from_slice(&data);
                }
                Piece::Lacking => {
                    assert_ne!(*framing, Framing::Ended);
                    return Ok(());
                }
                Piece::End => {
                    assert_eq!(*framing, Framing::Ended);
                    return Ok(());
                }
            }
        }
    }

    fn close(&mut self) {
        let Some(Head { framing, .. }) = &mut self.head else { return };
        if matches!(self.end, End::Refused(_)) {
            return;
        }
        self.end = if framing.close() { End::Whole } else { End::Cut };
        let unread = self.unread.clone();
        assert_eq!(framing.take(&mut self.unread), Ok(Piece::End));
        assert_eq!(self.unread, unread, "nothing is taken after the end");
    }
}

/// hyper must accept each answer that we accept, as the same answer. An answer that only we refuse
/// must be one where we are stricter on purpose.
fn check_agreement(data: &[u8], ours: &Answer) {
    let theirs = hyper_client::read(data);
    let (head, theirs) = match (&ours.head, theirs) {
        (Some(head), Some(theirs)) => (head, theirs),
        (Some(head), None) => {
            // Hyper refuses the two largest lengths, which it uses as marks.
            let lengths = list_elements(&head.headers, &CONTENT_LENGTH);
            let is_mark =
                |text: &String| text.parse().is_ok_and(|length: u64| length > u64::MAX - 2);
            assert!(lengths.iter().any(is_mark), "only we accept {ours:?}");
            return;
        }
        (None, theirs) => {
            let is_shared = match ours.end {
                End::Refused(why) => SHARED.contains(&why),
                End::Whole | End::Cut => true,
            };
            assert!(!is_shared || theirs.is_none(), "{ours:?} / {theirs:?}");
            return;
        }
    };
    assert_eq!(head.status, theirs.status);
    assert!(!head.is_kept || may_be_kept(&theirs), "{ours:?}");
    let has_body = ![StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&head.status);
    let is_chunked = has_body && theirs.headers.contains_key(TRANSFER_ENCODING);
    let mut headers = theirs.headers;
    if is_chunked {
        headers.remove(CONTENT_LENGTH);
    }
    assert_eq!(head.headers, headers);
    match ours.end {
        // We do not read trailers, so it may be that they cannot be read.
        End::Whole => assert!(theirs.is_whole || is_chunked, "only we accept {ours:?}"),
        End::Cut => assert!(!theirs.is_whole, "{ours:?}"),
        End::Refused(why) => assert!(!theirs.is_whole || !SHARED.contains(&why), "{ours:?}"),
    }
    if matches!(ours.end, End::Refused(_)) {
        assert!(theirs.body.starts_with(&ours.body), "{ours:?} / {:?}", theirs.body);
    } else {
        assert_eq!(ours.body, theirs.body);
    }
}

/// Whether nobody can be of another opinion about the end of the answer, and the server keeps the
/// connection open after it.
fn may_be_kept(answer: &hyper_client::Answer) -> bool {
    let lengths = list_elements(&answer.headers, &CONTENT_LENGTH);
    let codings = list_elements(&answer.headers, &TRANSFER_ENCODING);
    let is_certain = match answer.status {
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => {
            codings.is_empty() && lengths.iter().all(|length| length == "0")
        }
        _ => lengths.len() + codings.len() == 1,
    };
    let closes = list_elements(&answer.headers, &CONNECTION).contains(&"close".to_owned());
    is_certain && !closes && answer.version == Version::HTTP_11
}

/// All elements of a header that is a list, in lower case.
fn list_elements(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    values
        .flat_map(|value| {
            let one = |text: &str| text.trim().to_ascii_lowercase();
            value.split(',').map(one).collect::<Vec<_>>()
        })
        .collect()
}
