//! Writes the head of an HTTP/1.1 request, and parses the head of its answer.

use std::mem::MaybeUninit;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version, header};

use super::framing::Framing;

/// The maximum number of headers in an answer.
const MOST_HEADERS: usize = 100;

/// Headers that only the connection itself may set.
const OWN: [HeaderName; 7] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
];

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub framing: Framing,
    /// Whether the connection can be reused after the answer.
    pub is_kept: bool,
}

impl Head {
    /// Takes the head of an answer from the buffer; `None` if it is incomplete. The bytes before
    /// `searched` are known not to contain its end.
    pub fn take(read: &mut BytesMut, searched: &mut usize) -> Result<Option<Head>, &'static str> {
        loop {
            let Some(end) = end(read, searched) else { return Ok(None) };
            let head = parse(read.get(..end).unwrap_or_default())?;
            read.advance(end);
            *searched = 0;
            match head {
                head if head.status == StatusCode::SWITCHING_PROTOCOLS => {
                    return Err("it speaks another protocol");
                }
                // An interim response: the final one follows.
                head if head.status.is_informational() => {}
                head => return Ok(Some(head)),
            }
        }
    }
}

/// Writes the head of a request. `HeaderValue` has checked the values: none contains a line end.
pub(super) fn write(out: &mut Vec<u8>, url: &Uri, host: &HeaderValue, request: &Request<Bytes>) {
    let (method, length) = (request.method(), request.body().len());
    let (mark, query) = url.query().map_or(("", ""), |query| ("?", query));
    for part in [method.as_str(), " ", url.path(), mark, query, " HTTP/1.1"] {
        out.extend_from_slice(part.as_bytes());
    }
    line(out, &header::HOST, host.as_bytes());
    for (name, value) in request.headers().iter().filter(|(name, _)| !OWN.contains(name)) {
        line(out, name, value.as_bytes());
    }
    // A request without a body needs no `Content-Length`, except a POST.
    if length > 0 || *method == Method::POST {
        line(out, &header::CONTENT_LENGTH, length.to_string().as_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
}

fn line(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for part in [b"\r\n", name.as_str().as_bytes(), b": ", value] {
        out.extend_from_slice(part);
    }
}

/// The position after the first empty line.
fn end(read: &BytesMut, searched: &mut usize) -> Option<usize> {
    let from = searched.saturating_sub(2);
    for found in memchr::memchr_iter(b'\n', read.get(from..)?) {
        let next = from + found + 1;
        match read.get(next..)? {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => {}
        }
    }
    *searched = read.len();
    None
}

fn parse(text: &[u8]) -> Result<Head, &'static str> {
    const WRONG: &str = "it is no HTTP/1.1";
    // All values share one copy, so that the buffer can be reused.
    let all = Bytes::copy_from_slice(text);
    // Not filled with empty headers first, of which most answers use few.
    let mut parsed = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    match parser.parse_response_with_uninit_headers(&mut answer, &all, &mut parsed) {
        Ok(httparse::Status::Complete(length)) if length == text.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err("it has too many headers"),
        _ => return Err(WRONG),
    }
    let version = if answer.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let status = answer.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(WRONG)?;
    let mut headers = HeaderMap::with_capacity(answer.headers.len());
    for header in &*answer.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| WRONG)?;
        let value = HeaderValue::from_maybe_shared(all.slice_ref(header.value));
        let value = value.map_err(|_| WRONG)?;
        headers.append(name, value);
    }
    let (framing, is_plain) = Framing::of(version, status, &headers)?;
    if matches!(framing, Framing::Chunked(_)) {
        // It is dropped, because it did not determine the end of the body.
        headers.remove(header::CONTENT_LENGTH);
    }
    let is_kept = version == Version::HTTP_11
        && framing != Framing::UntilClose
        && is_plain
        && !asks_to_close(&headers);
    Ok(Head { status, headers, framing, is_kept })
}

fn asks_to_close(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| {
        value
            .as_bytes()
            .split(|byte| *byte == b',')
            .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"))
    })
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use http::{HeaderValue, Request, StatusCode};

    use super::{super::framing::Framing, Head, MOST_HEADERS, write};

    fn read(text: &str) -> Result<Option<Head>, &'static str> {
        Head::take(&mut BytesMut::from(text), &mut 0)
    }

    fn written(url: &str, request: &Request<Bytes>) -> String {
        let (url, host) = (url.parse().unwrap(), HeaderValue::from_static("here:1"));
        let mut out = Vec::new();
        write(&mut out, &url, &host, request);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_head_of_a_request_has_its_method_headers_and_length() {
        let mut request = Request::post("/").body(Bytes::from("ok")).unwrap();
        request.headers_mut().insert("accept", HeaderValue::from_static("text/event-stream"));
        let url = "http://here:1/mcp?a=b";
        let expected = "POST /mcp?a=b HTTP/1.1\r\nhost: here:1\r\naccept: text/event-stream\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(written(url, &request), expected);
        for (name, value) in [
            ("host", "elsewhere"),
            ("content-length", "7"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
        ] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        assert_eq!(written(url, &request), expected, "it alone says how it is framed");
        for (url, line) in [
            ("http://here:1", "GET / HTTP/1.1"),
            ("http://here:1?a=b", "GET /?a=b HTTP/1.1"),
            ("/a/b?", "GET /a/b? HTTP/1.1"),
        ] {
            let expected = format!("{line}\r\nhost: here:1\r\n\r\n");
            assert_eq!(written(url, &Request::new(Bytes::new())), expected);
        }
    }

    #[test]
    fn the_head_of_an_answer_is_parsed_however_it_is_split() {
        let text =
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nok";
        let (mut read, mut searched) = (BytesMut::new(), 0);
        let mut found = None;
        for byte in text.bytes() {
            read.extend_from_slice(&[byte]);
            if found.is_none() {
                found = Head::take(&mut read, &mut searched).unwrap();
            }
        }
        let head = found.unwrap();
        assert_eq!((head.status, head.framing), (StatusCode::OK, Framing::Length(2)));
        assert_eq!(head.headers["a"], "b");
        assert!(head.is_kept);
        assert_eq!(&read[..], b"ok");
    }

    #[test]
    fn a_connection_is_reused_only_if_that_is_safe() {
        for (headers, is_kept) in [
            ("content-length: 2", true),
            ("transfer-encoding: chunked", true),
            ("transfer-encoding: chunked\r\ncontent-length: 2", false),
            ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", false),
            ("content-length: 2, 2", false),
            ("content-length: 2\r\ncontent-length: 2", false),
            ("a: b", false),
            ("content-length: 2\r\nconnection: Close", false),
            ("content-length: 2\r\nconnection: a, close ,b", false),
            ("content-length: 2\r\nconnection: closed", true),
        ] {
            let head = read(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n")).unwrap().unwrap();
            assert_eq!(head.is_kept, is_kept, "{headers}");
            assert!(
                head.framing.remaining().is_some() || !head.headers.contains_key("content-length")
            );
        }
        let empty = read("HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n").unwrap().unwrap();
        assert!(!empty.is_kept);
        let old = read("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n").unwrap().unwrap();
        assert!(!old.is_kept);
    }

    #[test]
    fn invalid_answers_are_refused() {
        for text in [
            "HTTP/2 200 OK\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
            "HTTP/1.1 2 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
            "HTTP/1.1 200 OK\r\na : c\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: c\r\n d\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: \0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "\r\n\r\n\r\n",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
        let many = "a: b\r\n".repeat(MOST_HEADERS + 1);
        assert!(read(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")).is_err());
    }
}
