//! Validates an answer while it streams: it must be one JSON-RPC response to the pending request.
//! Only an outline of the answer is kept in memory.
//!
//! Answers that must be changed are buffered elsewhere; this is for answers that are
//! forwarded unchanged, of any length.

mod names;
mod scan;

use std::{borrow::Cow, sync::LazyLock};

use smallvec::SmallVec;

use crate::{
    json::{Bounds, Document},
    look_alike::Governed,
    rpc::{self, Id},
};
use scan::{Scanner, Sink};

/// Why an answer is not a valid response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("it is not valid JSON at byte {0}")]
    Json(u64),
    #[error("it is nested deeper than {0}")]
    TooDeep(usize),
    #[error("it ends before it is complete")]
    Incomplete,
    #[error("it is not a JSON-RPC response")]
    Envelope,
    #[error("it answers another request")]
    OtherId,
    #[error("a member stands twice, or looks like one that matters")]
    Ambiguous,
    #[error("a name in it is not valid text")]
    Name,
    #[error("a name or its id is longer than {0} bytes")]
    LongName(usize),
    #[error("its open objects have more than {0} names")]
    TooManyNames(usize),
}

/// The facts about an answer's content so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// Whether it is a JSON-RPC error.
    pub is_failure: bool,
    /// The value of `isError` in the result.
    pub is_error: Option<bool>,
    /// `resultType` of a modern result.
    pub result_type: Option<String>,
    /// Whether the result requests input from the client, or names a task: then it cannot be
    /// forwarded unchanged.
    pub is_special: bool,
}

/// Checks one answer.
#[derive(Debug)]
pub struct AnswerCheck {
    scanner: Scanner,
    envelope: Envelope,
}

#[derive(Debug)]
struct Envelope {
    expected: Id,
    /// Names seen so far in the outermost object and in the result.
    seen: Names,
    seen_in_result: Names,
    outline: Outline,
}

/// Members of a result that prevent forwarding it unchanged.
const SPECIAL: [&str; 4] = ["inputRequests", "requestState", "task", "taskId"];

/// Members that no other may resemble.
static GOVERNED: LazyLock<Vec<Governed>> = LazyLock::new(|| {
    SPECIAL.into_iter().chain(["resultType", "isError"]).map(Governed::new).collect()
});

/// The maximum number of members in the outermost object or the result: more than any real answer
/// has.
const MOST_MEMBERS: usize = 64;

impl AnswerCheck {
    /// Starts to check the answer to `expected`.
    pub fn new(expected: Id, depth: usize) -> AnswerCheck {
        let envelope = Envelope {
            expected,
            seen: Names::default(),
            seen_in_result: Names::default(),
            outline: Outline::default(),
        };
        AnswerCheck { scanner: Scanner::new(depth), envelope }
    }

    /// Checks the next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), AnswerError> {
        self.scanner.push(bytes, &mut self.envelope)
    }

    /// The facts known so far.
    pub fn outline(&self) -> &Outline {
        &self.envelope.outline
    }

    /// Checks that the answer is complete.
    pub fn finish(&self) -> Result<&Outline, AnswerError> {
        self.scanner.finish()?;
        // The values of `jsonrpc` and `id` were checked as they arrived.
        let has = |name: &str| self.envelope.seen.contains(name);
        if !has("jsonrpc") || has("result") == has("error") {
            return Err(AnswerError::Envelope);
        }
        if !has("id") {
            return Err(AnswerError::OtherId);
        }
        Ok(&self.envelope.outline)
    }
}

impl Sink for Envelope {
    fn key(&mut self, in_result: bool, key: &str) -> Result<bool, AnswerError> {
        let seen = if in_result { &self.seen_in_result } else { &self.seen };
        if seen.ends.len() >= MOST_MEMBERS {
            return Err(AnswerError::Envelope);
        }
        let wanted = if in_result {
            if GOVERNED.iter().any(|governed| governed.resembles(key)) {
                return Err(AnswerError::Ambiguous);
            }
            self.outline.is_special |= SPECIAL.contains(&key);
            matches!(key, "isError" | "resultType")
        } else {
            self.member(key)?
        };
        let seen = if in_result { &mut self.seen_in_result } else { &mut self.seen };
        seen.push(key);
        Ok(wanted)
    }

    fn is_result(&self) -> bool {
        self.seen.last() == Some("result")
    }

    fn scalar(&mut self, in_result: bool, raw: &str) -> Result<(), AnswerError> {
        let key = if in_result { self.seen_in_result.last() } else { self.seen.last() };
        match (in_result, key) {
            (false, Some("jsonrpc")) => {
                let is_known = decode_string(raw)? == "2.0";
                is_known.then_some(()).ok_or(AnswerError::Envelope)
            }
            (false, Some("id")) => self.id(raw),
            (true, Some("isError")) => {
                self.outline.is_error = Some(raw == "true");
                Ok(())
            }
            (true, Some("resultType")) => {
                let kind = decode_string(raw)?;
                self.outline.is_special |= kind != "complete";
                self.outline.result_type = Some(kind.into_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Envelope {
    /// Notes a member of the outermost object; returns whether its value is needed.
    fn member(&mut self, key: &str) -> Result<bool, AnswerError> {
        match key {
            "jsonrpc" | "id" => return Ok(true),
            "result" => {}
            "error" => self.outline.is_failure = true,
            "method" | "params" => return Err(AnswerError::Envelope),
            _ if rpc::resembles_member(key) => return Err(AnswerError::Ambiguous),
            _ => {}
        }
        Ok(false)
    }

    fn id(&self, raw: &str) -> Result<(), AnswerError> {
        let is_expected = match &self.expected {
            // Ids are compared by their text, so a number has only one spelling.
            Id::Integer(text) => raw == text,
            Id::String(text) => raw.starts_with('"') && decode_string(raw)? == text.as_str(),
        };
        is_expected.then_some(()).ok_or(AnswerError::OtherId)
    }
}

/// A list of names in one string.
#[derive(Debug, Default)]
struct Names {
    text: String,
    ends: SmallVec<[usize; 8]>,
}

impl Names {
    fn push(&mut self, name: &str) {
        if self.text.is_empty() {
            // Enough for nearly all answers.
            self.text.reserve(64);
        }
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        // Each end was once the length of the text, so it is a character boundary.
        starts.zip(&self.ends).filter_map(|(start, end)| self.text.get(start..*end))
    }

    fn contains(&self, name: &str) -> bool {
        self.iter().any(|own| own == name)
    }

    fn last(&self) -> Option<&str> {
        self.iter().last()
    }
}

/// The content of a JSON string.
fn decode_string(raw: &str) -> Result<Cow<'_, str>, AnswerError> {
    // Nearly all names have no escapes.
    if let Some(plain) = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
        && memchr::memchr(b'\\', plain.as_bytes()).is_none()
    {
        return Ok(Cow::Borrowed(plain));
    }
    let document = Document::parse(raw, &Bounds::default()).map_err(|_| AnswerError::Envelope)?;
    document.root().as_str().map(|text| Cow::Owned(text.to_owned())).ok_or(AnswerError::Envelope)
}

#[cfg(test)]
mod tests;
