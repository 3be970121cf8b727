//! Finds method and id of a JSON-RPC request by byte search.
//!
//! This is correct for the requests of our load generator, whose arguments contain neither word,
//! but not in general.

use memchr::memmem;

/// The request's method.
pub(super) fn method(body: &[u8]) -> Option<&[u8]> {
    value(body, b"\"method\"")?.strip_prefix(b"\"")?.split(|byte| *byte == b'"').next()
}

/// The text of the request's id; `None` for a notification.
pub(super) fn id(body: &[u8]) -> Option<&[u8]> {
    let rest = value(body, b"\"id\"")?;
    let length = match rest.strip_prefix(b"\"") {
        Some(text) => memchr::memchr(b'"', text)? + 2,
        None => rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'-'))?,
    };
    rest.get(..length).filter(|id| !id.is_empty())
}

/// The text after a key.
fn value<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = memmem::find(body, key)? + key.len();
    let rest = body.get(at..)?.trim_ascii_start().strip_prefix(b":")?;
    Some(rest.trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::{id, method};

    fn check(body: &str, expected: (Option<&str>, Option<&str>)) {
        let text =
            |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let found = (text(method(body.as_bytes())), text(id(body.as_bytes())));
        assert_eq!((found.0.as_deref(), found.1.as_deref()), expected, "{body}");
    }

    #[test]
    fn method_and_id_are_found_in_any_order() {
        check(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, (Some("ping"), Some("7")));
        check(r#"{"method": "ping", "id": "a-1"}"#, (Some("ping"), Some(r#""a-1""#)));
    }

    #[test]
    fn a_notification_has_no_id() {
        check(
            r#"{"method":"notifications/initialized"}"#,
            (Some("notifications/initialized"), None),
        );
    }

    #[test]
    fn other_texts_have_no_method_or_id() {
        check("", (None, None));
        check(r#"{"id":}"#, (None, None));
    }
}
