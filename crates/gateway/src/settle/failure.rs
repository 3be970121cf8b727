//! The reasons why a permitted call failed, as its record states them.

use crate::refusal::Refusal;

/// See the module. The text never quotes the server, except the last stderr lines of a
/// command that failed to start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallFailure {
    #[error("the server did not answer in time")]
    Timeout,
    #[error("the server cannot be reached")]
    Unreachable,
    #[error("{0}")]
    NotStarted(String),
    #[error("the connection to the server was lost")]
    ConnectionLost,
    #[error("the server answered with status {0}")]
    Status(u16),
    #[error("the server does not know the session")]
    SessionLost,
    #[error("the server speaks only an older revision")]
    LegacyServer,
    /// The answer breaks the protocol, or cannot be filtered.
    #[error("{0}")]
    BadAnswer(String),
    #[error("the stream ended before the answer")]
    StreamEnded,
    #[error("the client cancelled the call")]
    Cancelled,
    #[error("the client cancelled the call, or went away")]
    Abandoned,
    /// A decision about the answer could not be recorded.
    #[error("a decision about the answer could not be recorded")]
    NotRecorded,
    #[error("the gateway failed")]
    Gateway,
}

impl CallFailure {
    /// The failure that led to a refusal.
    pub(crate) fn of(refusal: &Refusal) -> CallFailure {
        match refusal {
            Refusal::Upstream { reason, .. } => CallFailure::BadAnswer(reason.clone()),
            Refusal::LegacyServer => CallFailure::LegacyServer,
            Refusal::Session => CallFailure::SessionLost,
            Refusal::Store => CallFailure::NotRecorded,
            _ => CallFailure::Gateway,
        }
    }

    /// The refusal that the client gets.
    pub(crate) fn to_refusal(&self) -> Refusal {
        match self {
            CallFailure::Timeout => Refusal::timeout(),
            other => Refusal::bad_gateway(other.to_string()),
        }
    }
}

impl From<&str> for CallFailure {
    fn from(fault: &str) -> CallFailure {
        CallFailure::BadAnswer(fault.to_owned())
    }
}

impl From<String> for CallFailure {
    fn from(fault: String) -> CallFailure {
        CallFailure::BadAnswer(fault)
    }
}
