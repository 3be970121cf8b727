//! JSON that is safe to print on a terminal: the same values, with control characters
//! escaped.

use std::fmt::Write as _;

use sluice_classify::steers;

/// The same JSON, without terminal control characters.
pub(super) fn escape_controls(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // They occur only between values: in strings, JSON escapes them.
            '\n' | '\t' => text.push(character),
            '\r' => {}
            steering if steers(steering) => {
                for unit in steering.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::escape_controls;

    #[test]
    fn control_characters_are_escaped_and_the_value_stays() {
        let value = json!({"a\u{9b}31m\u{7f}": ["\u{202e}\u{e0041}\n\t\r", "größe 筆記", 1.50]});
        let text = escape_controls(&format!("{value:#}"));
        assert!(text.contains(r"a\u009b31m\u007f") && text.contains(r"\u202e\udb40\udc41\n\t\r"));
        assert!(text.contains("größe 筆記"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(escape_controls("{\r\n\t\"a\": 1}"), "{\n\t\"a\": 1}");
    }
}
