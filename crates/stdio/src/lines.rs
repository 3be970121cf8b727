//! Reads lines of bounded length from untrusted input.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Bytes read at once.
const BUFFER: usize = 64 << 10;
/// Bytes that are kept of each end of a line that is too long.
const END: usize = 256;

/// Splits a stream into lines.
#[derive(Debug)]
pub struct Lines<R> {
    source: BufReader<R>,
    most: usize,
}

/// One line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Whole(Vec<u8>),
    /// Too long: only its beginning, its end and its length are known.
    TooLong {
        ends: Ends,
        length: u64,
    },
}

/// The beginning and the end of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl Ends {
    pub(crate) fn of(line: &[u8]) -> Ends {
        let mut ends = Ends::default();
        ends.push(line);
        ends
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = END.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(bytes.get(..room).unwrap_or_default());
        self.tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(END)..).unwrap_or(bytes));
        let surplus = self.tail.len().saturating_sub(END);
        self.tail.drain(..surplus);
    }
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most `most` bytes.
    pub fn new(source: R, most: usize) -> Lines<R> {
        Lines { source: BufReader::with_capacity(BUFFER, source), most }
    }

    /// The next line; `None` at the end. A line longer than `patience` bytes is returned
    /// before it ends.
    pub async fn next(&mut self, patience: u64) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        let mut too_long: Option<(Ends, u64)> = None;
        loop {
            let chunk = self.source.fill_buf().await?;
            let (is_last, is_over) = (memchr::memchr(b'\n', chunk), chunk.is_empty());
            let part = chunk.get(..is_last.unwrap_or(chunk.len())).unwrap_or_default();
            let taken = part.len() + usize::from(is_last.is_some());
            match &mut too_long {
                Some((ends, length)) => {
                    ends.push(part);
                    *length += part.len() as u64;
                }
                None if line.len() + part.len() > self.most => {
                    let mut ends = Ends::of(&line);
                    ends.push(part);
                    too_long = Some((ends, (line.len() + part.len()) as u64));
                    line = Vec::new();
                }
                None => line.extend_from_slice(part),
            }
            self.source.consume(taken);
            let is_endless = too_long.as_ref().is_some_and(|(_, length)| *length > patience);
            if is_last.is_some() || is_over || is_endless {
                let is_nothing = is_over && line.is_empty() && too_long.is_none();
                let line = match too_long {
                    Some((ends, length)) => Line::TooLong { ends, length },
                    None => Line::Whole(line),
                };
                return Ok((!is_nothing).then_some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{END, Line, Lines};

    #[tokio::test]
    async fn lines_are_whole_or_reported_as_too_long() {
        let long = "x".repeat(100) + &"y".repeat(END);
        let text = format!("a\n\n{long}\nlast");
        let mut lines = Lines::new(text.as_bytes(), 10);
        let mut whole = async || lines.next(1000).await.unwrap();
        assert_eq!(whole().await, Some(Line::Whole(b"a".to_vec())));
        assert_eq!(whole().await, Some(Line::Whole(Vec::new())));
        let Some(Line::TooLong { ends, length }) = whole().await else { panic!() };
        assert_eq!(length, 100 + END as u64);
        assert_eq!(ends.tail, "y".repeat(END).into_bytes());
        assert!(ends.head.starts_with(b"xxx") && ends.head.len() == END);
        assert_eq!(whole().await, Some(Line::Whole(b"last".to_vec())));
        assert_eq!(whole().await, None);
    }

    #[tokio::test]
    async fn an_endless_line_is_returned_before_it_ends() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 10);
        let Some(Line::TooLong { length, .. }) = lines.next(1 << 20).await.unwrap() else {
            panic!()
        };
        assert!(length > 1 << 20);
    }
}
