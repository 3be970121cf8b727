//! Body framing of HTTP/1.1 answers (RFC 9112, section 6).

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, StatusCode, Version, header};

/// The longest line in the framing of a chunked body, in bytes.
const MOST_LINE: usize = 4 << 10;
/// The largest trailers after a chunked body, in bytes.
const MOST_TRAILERS: usize = 16 << 10;
/// Chunks up to this size are copied, so that the buffer can be reused.
const COPIED: usize = 4 << 10;

/// How the rest of a body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked(Chunk),
    UntilClose,
    Ended,
}

/// The position in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    Size,
    Data(u64),
    /// The line end after the data.
    DataEnd,
    /// The trailers, of which this many bytes have been read.
    Trailers(usize),
}

/// The next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    Data(Bytes),
    /// More bytes have to be read first.
    Lacking,
    End,
}

impl Framing {
    /// Derives the framing of an answer's body from its head. The flag says whether the framing
    /// headers were unambiguous, so that the connection can be reused.
    pub(super) fn of(
        version: Version,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<(Framing, bool), &'static str> {
        let (codings, coding) = read_repeated(headers, &header::TRANSFER_ENCODING);
        let (lengths, length) = read_repeated(headers, &header::CONTENT_LENGTH);
        let is_plain = codings + lengths <= 1;
        if codings > 0 && status.is_informational() {
            return Err("it has a transfer coding, but no body");
        }
        if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
            let is_empty = codings == 0 && (lengths == 0 || length == Some(b"0"));
            return Ok((Framing::Ended, is_empty));
        }
        let framing = match (coding, length) {
            // Several servers send the header twice.
            (Some(coding), _) if coding.eq_ignore_ascii_case(b"chunked") => {
                if version != Version::HTTP_11 {
                    return Err("its transfer coding is not one of HTTP/1.0");
                }
                Framing::Chunked(Chunk::Size)
            }
            _ if codings > 0 => return Err("its transfer coding is not known"),
            (_, Some(length)) => match number(length).ok_or("its length is not known")? {
                0 => Framing::Ended,
                length => Framing::Length(length),
            },
            _ if lengths > 0 => return Err("its length is not known"),
            _ => Framing::UntilClose,
        };
        Ok((framing, is_plain))
    }

    /// The number of remaining bytes, if known.
    pub fn remaining(self) -> Option<u64> {
        match self {
            Framing::Length(left) => Some(left),
            Framing::Ended => Some(0),
            Framing::Chunked(_) | Framing::UntilClose => None,
        }
    }

    /// Takes the next part of the body from the buffer.
    pub fn take(&mut self, read: &mut BytesMut) -> Result<Piece, &'static str> {
        match self {
            Framing::Ended => Ok(Piece::End),
            _ if read.is_empty() => Ok(Piece::Lacking),
            Framing::UntilClose => Ok(Piece::Data(cut(read, u64::MAX).0)),
            Framing::Length(left) => {
                let (data, rest) = cut(read, *left);
                *self = if rest == 0 { Framing::Ended } else { Framing::Length(rest) };
                Ok(Piece::Data(data))
            }
            Framing::Chunked(chunk) => {
                let piece = chunk.take(read)?;
                if piece == Piece::End {
                    *self = Framing::Ended;
                }
                Ok(piece)
            }
        }
    }

    /// Handles the end of the connection; returns whether the body is complete.
    pub fn close(&mut self) -> bool {
        let is_whole = matches!(self, Framing::UntilClose | Framing::Ended);
        *self = Framing::Ended;
        is_whole
    }
}

impl Chunk {
    fn take(&mut self, read: &mut BytesMut) -> Result<Piece, &'static str> {
        loop {
            *self = match *self {
                Chunk::Size => match line(read)? {
                    None => return Ok(Piece::Lacking),
                    Some(line) => match size(&line).ok_or("a chunk of it has no size")? {
                        0 => Chunk::Trailers(0),
                        size => Chunk::Data(size),
                    },
                },
                Chunk::Data(_) if read.is_empty() => return Ok(Piece::Lacking),
                Chunk::Data(left) => {
                    let (data, rest) = cut(read, left);
                    *self = if rest == 0 { Chunk::DataEnd } else { Chunk::Data(rest) };
                    return Ok(Piece::Data(data));
                }
                Chunk::DataEnd => match line(read)? {
                    None => return Ok(Piece::Lacking),
                    Some(line) if line.is_empty() => Chunk::Size,
                    Some(_) => return Err("a chunk of it is longer than it says"),
                },
                Chunk::Trailers(before) => match line(read)? {
                    None => return Ok(Piece::Lacking),
                    Some(line) if line.is_empty() => return Ok(Piece::End),
                    Some(line) if before + line.len() > MOST_TRAILERS => {
                        return Err("too much follows it");
                    }
                    Some(line) => Chunk::Trailers(before + line.len()),
                },
            };
        }
    }
}

/// Takes at most `most` bytes; also returns how many of them are still missing.
fn cut(read: &mut BytesMut, most: u64) -> (Bytes, u64) {
    let length = usize::try_from(most).map_or(read.len(), |most| most.min(read.len()));
    let data = if length > COPIED {
        read.split_to(length).freeze()
    } else {
        let data = Bytes::copy_from_slice(read.get(..length).unwrap_or_default());
        read.advance(length);
        data
    };
    (data, most - length as u64)
}

/// Takes a line, without its end; `None` if it is incomplete.
fn line(read: &mut BytesMut) -> Result<Option<BytesMut>, &'static str> {
    let Some(end) = memchr::memchr(b'\n', read) else {
        return if read.len() > MOST_LINE { Err("its framing has no end") } else { Ok(None) };
    };
    if end > MOST_LINE {
        return Err("its framing has no end");
    }
    let mut line = read.split_to(end + 1);
    line.truncate(end);
    // A CR is allowed only at the end: some parsers treat it as a line end anywhere.
    match memchr::memchr(b'\r', &line) {
        Some(place) if place + 1 == end => line.truncate(place),
        _ => return Err("a line of its framing ends wrongly"),
    }
    Ok(Some(line))
}

/// The size at the start of a chunk's line; extensions are ignored.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = line.split_at_checked(digits)?;
    let next = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
    let is_whole = matches!(next, None | Some(b';')) && digits.len() <= 16;
    let text = str::from_utf8(digits).ok().filter(|_| is_whole)?;
    u64::from_str_radix(text, 16).ok()
}

/// How many times a header occurs, and its value if all occurrences agree.
fn read_repeated<'h>(headers: &'h HeaderMap, name: &HeaderName) -> (usize, Option<&'h [u8]>) {
    let mut said = headers
        .get_all(name)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii);
    let Some(first) = said.next() else { return (0, None) };
    let (mut count, mut is_same) = (1, true);
    for other in said {
        count += 1;
        is_same &= other.eq_ignore_ascii_case(first);
    }
    (count, is_same.then_some(first))
}

/// Parses a number that consists of digits only.
fn number(text: &[u8]) -> Option<u64> {
    let is_plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
    use proptest::prelude::*;

    use super::{Chunk, Framing, MOST_LINE, Piece};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    fn framed(pairs: &[(&'static str, &'static str)]) -> Result<Framing, &'static str> {
        Framing::of(Version::HTTP_11, StatusCode::OK, &headers(pairs)).map(|(framing, _)| framing)
    }

    /// Decodes a chunked body that arrives in parts: its data, and whether it ended.
    fn chunked(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), &'static str> {
        let mut framing = Framing::Chunked(Chunk::Size);
        let (mut read, mut data) = (BytesMut::new(), Vec::new());
        for piece in pieces {
            read.extend_from_slice(piece);
            loop {
                match framing.take(&mut read)? {
                    Piece::Data(more) => data.extend_from_slice(&more),
                    Piece::Lacking => break,
                    Piece::End => return Ok((data, true)),
                }
            }
        }
        Ok((data, false))
    }

    #[test]
    fn the_head_determines_the_framing_of_a_body() {
        assert_eq!(framed(&[]), Ok(Framing::UntilClose));
        assert_eq!(framed(&[("content-length", "12")]), Ok(Framing::Length(12)));
        assert_eq!(framed(&[("content-length", "0")]), Ok(Framing::Ended));
        assert_eq!(framed(&[("transfer-encoding", "Chunked")]), Ok(Framing::Chunked(Chunk::Size)));
        let empty = Framing::of(
            Version::HTTP_11,
            StatusCode::NO_CONTENT,
            &headers(&[("content-length", "7")]),
        );
        assert_eq!(empty, Ok((Framing::Ended, false)));
    }

    #[test]
    fn an_ambiguous_head_is_refused() {
        let mut twice = headers(&[("content-length", "12")]);
        twice.append("content-length", HeaderValue::from_static("13"));
        assert!(Framing::of(Version::HTTP_11, StatusCode::OK, &twice).is_err());
        for length in ["", "+1", "-1", "1 2", "0x10", "12,13", "12,", "99999999999999999999"] {
            assert!(framed(&[("content-length", length)]).is_err(), "{length}");
        }
        for coding in ["gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked", ""] {
            assert!(framed(&[("transfer-encoding", coding)]).is_err(), "{coding}");
        }
        let old = headers(&[("transfer-encoding", "chunked")]);
        assert!(Framing::of(Version::HTTP_10, StatusCode::OK, &old).is_err());
    }

    #[test]
    fn chunked_bodies_are_decoded() {
        let whole: &[u8] =
            b"3\r\nabc\r\n00A ; name=\"x\"\r\n0123456789\r\n0\r\nsome: thing\r\n\r\n";
        assert_eq!(chunked(&[whole]), Ok((b"abc0123456789".to_vec(), true)));
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(chunked(&bytes), Ok((b"abc0123456789".to_vec(), true)));
        assert_eq!(chunked(&[b"3\r\nab"]), Ok((b"ab".to_vec(), false)));
    }

    #[test]
    fn ambiguous_chunks_are_refused() {
        for text in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+3\r\nabc",
            "0x3\r\nabc",
            "3\nabc",
            "3 3\r\nabc",
            "3\r\nabcd\r\n",
            "3\r\nabc\n",
            "3\r\nabc0\r\n",
            "10000000000000000\r\n",
            "3\r\r\nabc\r\n",
            "3;a\rb\r\nabc\r\n",
        ] {
            assert!(chunked(&[text.as_bytes()]).is_err(), "{text:?}");
        }
        let long = format!("3;{}\r\n", "x".repeat(MOST_LINE));
        assert!(chunked(&[long.as_bytes()]).is_err());
        assert!(chunked(&["1".repeat(MOST_LINE + 1).as_bytes()]).is_err());
        let endless = format!("0\r\n{}", "a: b\r\n".repeat(10_000));
        assert!(chunked(&[endless.as_bytes()]).is_err());
    }

    #[test]
    fn a_closed_connection_completes_only_bodies_that_may_end_there() {
        for (mut framing, is_whole) in [
            (Framing::UntilClose, true),
            (Framing::Ended, true),
            (Framing::Length(1), false),
            (Framing::Chunked(Chunk::Size), false),
            (Framing::Chunked(Chunk::Trailers(0)), false),
        ] {
            assert_eq!(framing.close(), is_whole);
            assert_eq!(framing.take(&mut BytesMut::from("more")), Ok(Piece::End));
        }
    }

    #[test]
    fn bytes_after_a_body_are_left_in_the_buffer() {
        let (mut framing, mut read) = (Framing::Length(3), BytesMut::from("abcd"));
        assert_eq!(framing.take(&mut read), Ok(Piece::Data(Bytes::from("abc"))));
        assert_eq!((framing.take(&mut read), &read[..]), (Ok(Piece::End), &b"d"[..]));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_chunks_are_decoded_unchanged(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..9000), 0..6),
            step in 1_usize..9000,
        ) {
            let mut sent = Vec::new();
            for chunk in &chunks {
                sent.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                sent.extend_from_slice(chunk);
                sent.extend_from_slice(b"\r\n");
            }
            sent.extend_from_slice(b"0\r\n\r\n");
            let pieces: Vec<&[u8]> = sent.chunks(step).collect();
            prop_assert_eq!(chunked(&pieces), Ok((chunks.concat(), true)));
        }
    }
}
