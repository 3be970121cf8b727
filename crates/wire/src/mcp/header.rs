//! Encoding of strings in the HTTP headers in which modern requests repeat them.

use data_encoding::BASE64;

/// Encodes a text for a header: unchanged if a header allows it.
pub fn header_text(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !text.starts_with("=?base64?");
    if is_plain {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", BASE64.encode(text.as_bytes()))
    }
}

/// Decodes a header's value; `None` if it is invalid.
pub fn text_of_header(value: &str) -> Option<String> {
    let encoded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        Some(encoded) => String::from_utf8(BASE64.decode(encoded.as_bytes()).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{header_text, text_of_header};

    #[test]
    fn headers_carry_any_text() {
        for text in ["eval", "ü", " padded ", "=?base64?x?=", "a\nb", ""] {
            let carried = header_text(text);
            assert!(carried.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{carried}");
            assert_eq!(text_of_header(&carried).as_deref(), Some(text));
        }
        assert_eq!(text_of_header("=?base64?!?="), None);
    }
}
