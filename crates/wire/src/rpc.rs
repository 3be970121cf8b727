//! The JSON-RPC envelope: the kind of a message, and its id.
//!
//! Unknown members stay in the document and are forwarded. A member that merely looks like one of
//! the envelope's own is refused, because another parser might confuse the two.

use std::sync::LazyLock;

use crate::{
    json::{Document, Kind, Value},
    look_alike::Governed,
};

/// A request's id. The two types never equal each other: `1` is not `"1"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// An integer, stored as text.
    Integer(String),
    /// A string.
    String(String),
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'d> {
    Request {
        id: Id,
        method: &'d str,
        params: Option<Value<'d>>,
    },
    Notification {
        method: &'d str,
        params: Option<Value<'d>>,
    },
    Response {
        id: Id,
        result: Value<'d>,
    },
    /// The id is absent if it could not be read from the request.
    Failure {
        id: Option<Id>,
        error: Value<'d>,
    },
}

/// Whether a text that is not a valid message was probably meant as one. This only decides whether
/// its sender is given up at once or the text is ignored.
pub fn resembles_message(text: &str) -> bool {
    let members = ["\"jsonrpc\"", "\"id\"", "\"method\"", "\"result\"", "\"error\""];
    members.iter().any(|member| text.contains(member))
}

/// Why a document is not one JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("batches are not accepted: send one message at a time")]
    Batch,
    #[error("a message is an object, not a {0}")]
    NotAnObject(&'static str),
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    #[error("`{found}` looks like `{meant}`: send `{meant}` only")]
    LookAlike { found: String, meant: &'static str },
    #[error("`id` must be a string or an integer")]
    Id,
    #[error("`method` must be a string")]
    Method,
    #[error("`params` must be an object or a list")]
    Params,
    #[error("`error` must be an object")]
    Error,
    #[error("`{0}` and `{1}` cannot stand in one message")]
    Both(&'static str, &'static str),
    #[error("neither `method`, `result` nor `error` is there")]
    Nothing,
    #[error("a response needs the `id` of its request")]
    NoId,
}

/// The members of the envelope, in the order of [`Envelope`]'s fields.
static MEMBERS: LazyLock<[(&'static str, Governed); 6]> = LazyLock::new(|| {
    ["jsonrpc", "id", "method", "params", "result", "error"].map(|name| (name, Governed::new(name)))
});

#[derive(Default)]
struct Envelope<'d> {
    members: [Option<Value<'d>>; 6],
}

impl<'d> Message<'d> {
    /// The id of the expected answer, if there is one.
    pub fn request_id(&self) -> Option<&Id> {
        match self {
            Message::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Parses the message in `document`.
    pub fn read(document: &'d Document) -> Result<Message<'d>, EnvelopeError> {
        let root = document.root();
        let members = match root.kind() {
            Kind::List => return Err(EnvelopeError::Batch),
            kind => root.members().ok_or(EnvelopeError::NotAnObject(kind.name()))?,
        };
        let mut envelope = Envelope::default();
        for (key, value) in members {
            envelope.take(key.as_str().unwrap_or_default(), value)?;
        }
        envelope.message()
    }
}

impl<'d> Envelope<'d> {
    fn take(&mut self, key: &str, value: Value<'d>) -> Result<(), EnvelopeError> {
        for (slot, (name, governed)) in self.members.iter_mut().zip(MEMBERS.iter()) {
            if key == *name {
                *slot = Some(value);
                return Ok(());
            }
            if governed.resembles(key) {
                // A key padded with blanks can be as long as the message.
                let found = key.chars().take(64).collect();
                return Err(EnvelopeError::LookAlike { found, meant: name });
            }
        }
        Ok(())
    }

    fn message(self) -> Result<Message<'d>, EnvelopeError> {
        let [version, id, method, params, result, error] = self.members;
        if version.and_then(Value::as_str) != Some("2.0") {
            return Err(EnvelopeError::Version);
        }
        match (method, result, error) {
            (Some(_), Some(_), _) => Err(EnvelopeError::Both("method", "result")),
            (Some(_), _, Some(_)) => Err(EnvelopeError::Both("method", "error")),
            (_, Some(_), Some(_)) => Err(EnvelopeError::Both("result", "error")),
            (None, None, None) => Err(EnvelopeError::Nothing),
            (Some(method), None, None) => call(id, method, params),
            (None, Some(_), _) if params.is_some() => Err(EnvelopeError::Both("params", "result")),
            (None, _, Some(_)) if params.is_some() => Err(EnvelopeError::Both("params", "error")),
            (None, Some(result), None) => {
                Ok(Message::Response { id: read_id(id.ok_or(EnvelopeError::NoId)?)?, result })
            }
            (None, None, Some(error)) => failure(id, error),
        }
    }
}

fn call<'d>(
    id: Option<Value<'d>>,
    method: Value<'d>,
    params: Option<Value<'d>>,
) -> Result<Message<'d>, EnvelopeError> {
    let method = method.as_str().ok_or(EnvelopeError::Method)?;
    if params.is_some_and(|params| !matches!(params.kind(), Kind::Object | Kind::List)) {
        return Err(EnvelopeError::Params);
    }
    Ok(match id {
        Some(id) => Message::Request { id: read_id(id)?, method, params },
        None => Message::Notification { method, params },
    })
}

fn failure<'d>(id: Option<Value<'d>>, error: Value<'d>) -> Result<Message<'d>, EnvelopeError> {
    if error.kind() != Kind::Object {
        return Err(EnvelopeError::Error);
    }
    let id = id.filter(|id| !id.is_null()).map(read_id).transpose()?;
    Ok(Message::Failure { id, error })
}

/// Whether some other parser would confuse a key with one of the envelope's.
pub(crate) fn resembles_member(key: &str) -> bool {
    MEMBERS.iter().any(|(_, governed)| governed.resembles(key))
}

impl Id {
    /// Parses an id: a string or an integer.
    pub fn read(id: Value<'_>) -> Result<Id, EnvelopeError> {
        read_id(id)
    }

    /// The id as JSON.
    pub fn to_json(&self) -> String {
        match self {
            Id::Integer(text) => text.clone(),
            Id::String(text) => crate::edit::quote(text),
        }
    }
}

fn read_id(id: Value<'_>) -> Result<Id, EnvelopeError> {
    if let Some(text) = id.as_str() {
        return Ok(Id::String(text.into()));
    }
    match id.as_number() {
        // `-0` is refused: it would be a second spelling of `0`.
        Some(text) if text != "-0" && !text.contains(['.', 'e', 'E']) => {
            Ok(Id::Integer(text.into()))
        }
        _ => Err(EnvelopeError::Id),
    }
}
