//! Parses HTTP/1.1 answers as their bytes arrive, without doing I/O: the closed loop is
//! asynchronous, the open loop is not.

use anyhow::{Context as _, bail};

/// An incremental parser, reused for all answers of a connection.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    pending: Vec<u8>,
    state: State,
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    /// The body so far.
    pub(crate) body: Vec<u8>,
    /// Whether bodies are dropped as they arrive, because nobody looks at them.
    discards: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// This many bytes of the body are missing.
    Sized(usize),
    /// A chunk's size comes next.
    ChunkSize,
    /// This many bytes of a chunk are missing, including its line end.
    Chunk(usize),
    /// The line end after the last chunk comes next; trailers are not expected.
    LastLine,
    Complete,
}

impl Decoder {
    /// A parser that keeps no bodies.
    pub(crate) fn discarding() -> Decoder {
        Decoder { discards: true, ..Decoder::default() }
    }

    /// Prepares for the next answer.
    pub(crate) fn reset(&mut self) {
        self.pending.clear();
        self.body.clear();
        self.session = None;
        self.state = State::Head;
    }

    /// Whether the head is complete.
    pub(crate) fn has_head(&self) -> bool {
        self.state != State::Head
    }

    /// Parses the next bytes; returns whether the answer is complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> anyhow::Result<bool> {
        self.pending.extend_from_slice(bytes);
        while self.state != State::Complete {
            let Some(used) = self.step()? else { return Ok(false) };
            self.pending.drain(..used);
        }
        if !self.pending.is_empty() {
            bail!("{} bytes came after the end of the answer", self.pending.len());
        }
        Ok(true)
    }

    /// Advances to the next state; returns the number of bytes consumed, or `None` if more bytes
    /// are needed.
    fn step(&mut self) -> anyhow::Result<Option<usize>> {
        match self.state {
            State::Head => self.take_head(),
            State::Sized(left) => {
                let used = self.take_body(left);
                let left = left - used;
                self.state = if left == 0 { State::Complete } else { State::Sized(left) };
                Ok((used > 0 || left == 0).then_some(used))
            }
            State::ChunkSize => self.take_chunk_size(),
            State::Chunk(left) => {
                let used = self.take_body(left);
                if used < left {
                    self.state = State::Chunk(left - used);
                    return Ok((used > 0).then_some(used));
                }
                // The line end is consumed with the chunk's last bytes.
                let ended = self.pending.get(used..).is_some_and(|rest| rest.len() >= 2);
                self.state = if ended { State::ChunkSize } else { State::Chunk(0) };
                Ok(if ended { Some(used + 2) } else { (used > 0).then_some(used) })
            }
            State::LastLine => {
                let ended = self.pending.starts_with(b"\r\n");
                self.state = if ended { State::Complete } else { State::LastLine };
                Ok(ended.then_some(2))
            }
            State::Complete => Ok(Some(0)),
        }
    }

    fn take_head(&mut self) -> anyhow::Result<Option<usize>> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(used) = response.parse(&self.pending)? else {
            return Ok(None);
        };
        self.status = response.code.context("an answer without a status")?;
        self.state = State::Sized(0);
        for header in response.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                self.state = State::Sized(std::str::from_utf8(header.value)?.parse()?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                self.state = State::ChunkSize;
            } else if header.name.eq_ignore_ascii_case("mcp-session-id") {
                self.session = Some(String::from_utf8(header.value.to_vec())?);
            }
        }
        Ok(Some(used))
    }

    fn take_chunk_size(&mut self) -> anyhow::Result<Option<usize>> {
        let parsed = httparse::parse_chunk_size(&self.pending)
            .map_err(|_| anyhow::anyhow!("a chunk without a size"))?;
        let httparse::Status::Complete((used, size)) = parsed else { return Ok(None) };
        self.state = if size == 0 { State::LastLine } else { State::Chunk(usize::try_from(size)?) };
        Ok(Some(used))
    }

    /// Moves up to `most` bytes into the body; returns their number.
    fn take_body(&mut self, most: usize) -> usize {
        let used = most.min(self.pending.len());
        if !self.discards {
            self.body.extend_from_slice(self.pending.get(..used).unwrap_or_default());
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::Decoder;

    /// Checks that the answer is parsed correctly however its bytes are split.
    fn check(answer: &str, status: u16, body: &str) {
        for size in 1..=answer.len() {
            let mut decoder = Decoder::default();
            let mut pieces = answer.as_bytes().chunks(size).peekable();
            while let Some(piece) = pieces.next() {
                let complete = decoder.feed(piece).unwrap();
                assert_eq!(complete, pieces.peek().is_none(), "in pieces of {size}: {answer:?}");
            }
            assert_eq!((decoder.status, decoder.body.as_slice()), (status, body.as_bytes()));
        }
    }

    #[test]
    fn answers_of_known_length_are_read() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
        check("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", 202, "");
    }

    #[test]
    fn chunked_answers_are_read() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{head}5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"), 200, "hello, world");
        check(&format!("{head}0\r\n\r\n"), 200, "");
    }

    #[test]
    fn a_decoder_reads_one_answer_after_another() {
        let mut decoder = Decoder::default();
        for body in ["one", "two"] {
            decoder.reset();
            let answer =
                format!("HTTP/1.1 200 OK\r\nMcp-Session-Id: s\r\nContent-Length: 3\r\n\r\n{body}");
            assert!(decoder.feed(answer.as_bytes()).unwrap());
            assert_eq!(
                (decoder.body.as_slice(), decoder.session.as_deref()),
                (body.as_bytes(), Some("s"))
            );
        }
    }

    #[test]
    fn a_decoder_can_read_without_keeping() {
        let mut decoder = Decoder::discarding();
        assert!(decoder.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap());
        assert!(decoder.body.is_empty());
    }

    #[test]
    fn extra_bytes_after_an_answer_are_an_error() {
        let mut decoder = Decoder::default();
        assert!(decoder.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab").is_err());
    }
}
