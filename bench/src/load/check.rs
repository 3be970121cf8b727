//! Checks that an answer is the upstream's answer to an allowed call.

use std::{error::Error, fmt};

use memchr::memmem;

use super::{MARK, response::Decoder};

/// How much of a wrong answer is printed.
const SHOWN: usize = 400;

/// A wrong answer.
#[derive(Debug)]
pub(super) struct Wrong {
    why: &'static str,
    status: u16,
    body: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: HTTP {}, `{}`", self.why, self.status, self.body)
    }
}

impl Error for Wrong {}

/// Checks the answer to the call with this id.
pub(super) fn check(answer: &Decoder, id: u64) -> Result<(), Wrong> {
    let body = answer.body.as_slice();
    let why = if answer.status != 200 {
        "a status that is not 200"
    } else if memmem::find(body, b"\"error\":").is_some() {
        "a JSON-RPC error"
    } else if is_tool_error(body) {
        "a denied or failed call"
    } else if !has_id(body, id) {
        "an answer to another call"
    } else if memmem::find(body, MARK.as_bytes()).is_none() {
        "an answer that is not the upstream's"
    } else {
        return Ok(());
    };
    let body = String::from_utf8_lossy(body.get(..SHOWN).unwrap_or(body)).into_owned();
    Err(Wrong { why, status: answer.status, body })
}

fn is_tool_error(body: &[u8]) -> bool {
    after(body, b"\"isError\"").is_some_and(|value| value.starts_with(b"true"))
}

fn has_id(body: &[u8], id: u64) -> bool {
    let mut digits = [0; 10];
    let mut left = id;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(left % 10).unwrap_or_default();
        left /= 10;
    }
    let rest = after(body, b"\"id\"").and_then(|value| value.strip_prefix(&digits));
    rest.is_some_and(|rest| matches!(rest.first(), Some(b',' | b'}' | b' ')))
}

/// The text after a key.
fn after<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = memmem::find(body, key)? + key.len();
    Some(body.get(at..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::{super::response::Decoder, check};

    const ID: u64 = 1_000_000_042;

    fn checked(status: u16, body: &str) -> Option<&'static str> {
        let mut answer = Decoder::default();
        let length = body.len();
        let bytes = format!("HTTP/1.1 {status} -\r\nContent-Length: {length}\r\n\r\n{body}");
        assert!(answer.feed(bytes.as_bytes()).unwrap());
        check(&answer, ID).err().map(|wrong| wrong.why)
    }

    #[test]
    fn the_upstreams_answer_is_accepted() {
        let text = r#"{"jsonrpc":"2.0","id":1000000042,"result":{"content":[{"type":"text","text":"done-by-the-upstream"}],"isError":false}}"#;
        assert_eq!(checked(200, text), None);
        assert_eq!(checked(200, &format!("event: message\ndata: {text}\n\n")), None);
        assert_eq!(checked(502, text), Some("a status that is not 200"));
        assert_eq!(checked(200, &text.replace("42,", "43,")), Some("an answer to another call"));
        assert_eq!(checked(200, &text.replace("42,", "421,")), Some("an answer to another call"));
    }

    #[test]
    fn denials_and_errors_are_wrong_answers() {
        let denied = r#"{"id":1000000042,"result":{"isError": true,"content":[{"text":"[POLICY DENIED]"}]}}"#;
        assert_eq!(checked(200, denied), Some("a denied or failed call"));
        let failed = r#"{"id":1000000042,"error":{"code":-32603}}"#;
        assert_eq!(checked(200, failed), Some("a JSON-RPC error"));
        let other = r#"{"id":1000000042,"result":{}}"#;
        assert_eq!(checked(200, other), Some("an answer that is not the upstream's"));
    }
}
