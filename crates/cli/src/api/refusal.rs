//! Errors returned by the API.

use std::fmt;

use serde::Deserialize;

use crate::output::Done;

/// An RFC 9457 problem, with the fields that our API adds.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    status: u16,
    detail: String,
    hint: Option<String>,
    #[serde(default)]
    problems: Vec<PolicyProblem>,
}

/// A problem in a policy, and its position.
#[derive(Debug, Deserialize)]
struct PolicyProblem {
    line: usize,
    column: usize,
    message: String,
}

impl Refusal {
    /// `None` if the text is not a problem document of our API.
    pub(super) fn read(text: &[u8]) -> Option<Refusal> {
        serde_json::from_slice(text).ok()
    }

    /// Whether there is nothing of that name.
    pub(super) fn is_missing(&self) -> bool {
        self.status == 404
    }

    /// The exit status for a refused command: a request that the gateway could not parse counts as
    /// misuse.
    pub(super) fn end(&self) -> Done {
        if self.status == 400 { Done::Misused } else { Done::WithProblems }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        for PolicyProblem { line, column, message } in &self.problems {
            write!(f, "\n  {line}:{column}: {message}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::{Done, Refusal};

    #[test]
    fn a_problem_becomes_a_message() {
        let text = br#"{"type":"x","title":"T","status":409,"detail":"no","hint":"so"}"#;
        assert_eq!(Refusal::read(text).unwrap().to_string(), "no\nhint: so");
        let text =
            br#"{"status":400,"detail":"bad","problems":[{"line":1,"column":2,"message":"m","hint":null}]}"#;
        assert_eq!(Refusal::read(text).unwrap().to_string(), "bad\n  1:2: m");
        assert_eq!(Refusal::read(text).unwrap().end(), Done::Misused);
        assert!(Refusal::read(b"<html>").is_none());
    }
}
