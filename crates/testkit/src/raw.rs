//! A raw HTTP client that sends any bytes and reads the response without validating it.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Long enough for any answer that comes at all, also on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// One connection.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    /// Bytes read past the last answer.
    ahead: Vec<u8>,
}

/// One HTTP answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body ended as its framing says it does.
    pub is_whole: bool,
}

impl Answer {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl RawClient {
    pub async fn connect(address: SocketAddr) -> io::Result<RawClient> {
        Ok(RawClient { stream: TcpStream::connect(address).await?, ahead: Vec::new() })
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads one answer; `None` if the connection ends before one begins.
    pub async fn answer(&mut self) -> io::Result<Option<Answer>> {
        let Some(head) = self.until(b"\r\n\r\n").await? else { return Ok(None) };
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.split("\r\n");
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
            .collect();
        let mut answer = Answer { status: status.unwrap_or(0), headers, ..Answer::default() };
        let length = answer.header("content-length").and_then(|text| text.parse().ok());
        match length {
            Some(length) => answer.is_whole = self.exactly(length, &mut answer.body).await?,
            None if answer.header("transfer-encoding") == Some("chunked") => {
                answer.is_whole = self.chunks(&mut answer.body).await?;
            }
            None => answer.is_whole = true,
        }
        Ok(Some(answer))
    }

    /// Reads the chunks of a body; whether the last one came.
    async fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
        while let Some(chunk) = self.chunk().await? {
            if chunk.is_empty() {
                return Ok(true);
            }
            body.extend(chunk);
        }
        Ok(false)
    }

    /// Reads one chunk of a body, empty for the last; `None` if the connection
    /// ends instead.
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(line) = self.until(b"\r\n").await? else { return Ok(None) };
        let line = String::from_utf8_lossy(&line).into_owned();
        let Ok(length) = usize::from_str_radix(line.trim(), 16) else { return Ok(None) };
        let mut chunk = Vec::new();
        if !self.exactly(length, &mut chunk).await? {
            return Ok(None);
        }
        let mut end = Vec::new();
        Ok(self.exactly(2, &mut end).await?.then_some(chunk))
    }

    /// Reads the head of an answer whose body is read chunk by chunk.
    pub async fn head(&mut self) -> io::Result<Option<String>> {
        Ok(self.until(b"\r\n\r\n").await?.map(|head| String::from_utf8_lossy(&head).into_owned()))
    }

    async fn until(&mut self, end: &[u8]) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(place) = self.ahead.windows(end.len()).position(|window| window == end) {
                let rest = self.ahead.split_off(place + end.len());
                let mut found = std::mem::replace(&mut self.ahead, rest);
                found.truncate(place);
                return Ok(Some(found));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    async fn exactly(&mut self, length: usize, body: &mut Vec<u8>) -> io::Result<bool> {
        while self.ahead.len() < length {
            if !self.more().await? {
                body.append(&mut self.ahead);
                return Ok(false);
            }
        }
        let rest = self.ahead.split_off(length);
        body.append(&mut std::mem::replace(&mut self.ahead, rest));
        Ok(true)
    }

    async fn more(&mut self) -> io::Result<bool> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "nothing came for a minute");
        self.ahead.reserve(16 << 10);
        let read =
            timeout(READ_TIMEOUT, self.stream.read_buf(&mut self.ahead)).await.map_err(late)?;
        let count = match read {
            // A connection that is cut may be reset instead of ended.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            read => read?,
        };
        Ok(count > 0)
    }
}
