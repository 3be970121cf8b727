//! Converts an answer of the image into a tool result.
//!
//! The image's JSON object is returned unchanged, as text and as structured content,
//! so that numbers keep all their digits.

use bytes::Bytes;
use sluice_builtin::ToolResult;
use sluice_wire::json::{Bounds, Document, Kind, LoneSurrogates, Quoted, Value};

use crate::image::{Answer, NoAnswer};

/// Smalltalk integers have any number of digits, and stack traces and sources are long.
const BOUNDS: Bounds = Bounds {
    bytes: 64 << 20,
    depth: 512,
    string: 64 << 20,
    number: 1 << 20,
    members: 1 << 22,
    nodes: 1 << 22,
    lone_surrogates: LoneSurrogates::Refuse,
};

/// Converts the answer of an image, or the failure to get one, into a tool result.
pub(crate) fn result(tool: &str, answered: Result<Answer, NoAnswer>) -> ToolResult {
    match answered {
        Ok(Answer { status, body }) if status.is_success() => relay(tool, body),
        Ok(Answer { status, body }) => {
            let text = String::from_utf8_lossy(&body);
            error_result(&format!("HTTP error {}: {text}", status.as_u16()))
        }
        Err(no_answer) => error_result(&no_answer.to_string()),
    }
}

/// Returns the image's answer.
fn relay(tool: &str, body: Bytes) -> ToolResult {
    let document = match Document::parse(body, &BOUNDS) {
        Ok(document) => document,
        Err(refusal) => return error_result(&format!("Invalid JSON response: {refusal}")),
    };
    let root = document.root();
    if root.kind() != Kind::Object {
        let kind = root.kind().name();
        return ToolResult::error(format!(
            "Error calling tool '{tool}': the image answered with a {kind}, not with an object"
        ));
    }
    let has_failed = has_failed(root);
    let object = single_line(root.raw());
    ToolResult { has_failed, ..ToolResult::text(object.clone()).with_structured(object) }
}

/// Whether the call failed: the image says so, or there is an error in place of the result, which
/// the image sends if JSON cannot represent the value.
fn has_failed(answer: Value<'_>) -> bool {
    let success = answer.get("success").and_then(Value::as_bool);
    success != Some(true) || (answer.get("error").is_some() && answer.get("result").is_none())
}

/// Replaces line breaks by blanks; in JSON they only occur between tokens.
fn single_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// An error of our own, in the format of the image's errors.
fn error_result(error: &str) -> ToolResult {
    let object = format!("{{\"success\":false,\"error\":{}}}", Quoted(error));
    ToolResult { has_failed: true, ..ToolResult::text(object.clone()).with_structured(object) }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::{Answer, result};

    /// Checks whether it failed, whether the caller is told so, and the text.
    #[track_caller]
    fn check(status: u16, body: &str, expected: (bool, bool, &str)) {
        let status = StatusCode::from_u16(status).unwrap();
        let result = result("eval", Ok(Answer { status, body: body.to_owned().into() }));
        let text = result.content.join("|");
        assert_eq!((result.has_failed, result.is_error, text.as_str()), expected);
        if !result.is_error {
            assert_eq!(result.structured.as_deref(), Some(text.as_str()));
        }
    }

    #[test]
    fn the_object_of_the_image_is_returned_unchanged() {
        let big = format!(r#"{{"success":true,"result":{}}}"#, "7".repeat(5000));
        for body in [
            r#"{"success":true,"result":null}"#,
            r#"{"result": 1.50,"success" :true}"#,
            r#"{"success":true,"result":1,"error":"kept"}"#,
            big.as_str(),
        ] {
            check(200, body, (false, false, body));
        }
        let lines = "\r\n{\"success\":true,\n\"result\":\"a\\nb\"}\r\n";
        check(200, lines, (false, false, r#"{"success":true, "result":"a\nb"}"#));
    }

    #[test]
    fn failures_of_the_image_are_counted_but_not_reported_as_errors() {
        for body in [
            r#"{"success":false,"error":{"description":"ZeroDivide"}}"#,
            r#"{"success":false,"error":"old"}"#,
            r#"{"success":true,"error":{"description":"no JSON","suggestion":"printString"}}"#,
            "{}",
        ] {
            check(200, body, (true, false, body));
        }
    }

    #[test]
    fn connection_errors_read_as_in_the_original() {
        check(
            500,
            "boom\r\n",
            (true, false, r#"{"success":false,"error":"HTTP error 500: boom\r\n"}"#),
        );
        check(302, "", (true, false, r#"{"success":false,"error":"HTTP error 302: "}"#));
        let expected =
            "Error calling tool 'eval': the image answered with a list, not with an object";
        check(200, "[1]", (false, true, expected));
        let text = result("eval", Ok(Answer { status: StatusCode::OK, body: "<html>".into() }));
        let text = text.structured.unwrap();
        assert!(text.starts_with(r#"{"success":false,"error":"Invalid JSON response: "#), "{text}");
    }
}
