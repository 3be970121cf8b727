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
    /// In the result, or as a JSON-RPC error.
    #[error("the server answered that the call failed; its answer is not recorded")]
    Reported,
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
    #[error("the client did not read the answer")]
    Unread,
    /// A decision about the answer could not be recorded.
    #[error("a decision about the answer could not be recorded")]
    NotRecorded,
    /// A bound of the gateway, which the text names.
    #[error("{0}")]
    Bound(&'static str),
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
            Refusal::Store | Refusal::NoSpace(_) => CallFailure::NotRecorded,
            Refusal::Busy(bound) => CallFailure::Bound(bound),
            _ => CallFailure::Gateway,
        }
    }

    /// The kind of failure in metrics, if the server is to blame.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        match self {
            CallFailure::Timeout => Some("timeout"),
            CallFailure::Unreachable => Some("unreachable"),
            CallFailure::NotStarted(_) => Some("not_started"),
            CallFailure::ConnectionLost => Some("connection_lost"),
            CallFailure::Reported => Some("reported"),
            CallFailure::Status(_) => Some("status"),
            CallFailure::SessionLost => Some("session_lost"),
            CallFailure::LegacyServer => Some("legacy_server"),
            CallFailure::BadAnswer(_) => Some("bad_answer"),
            CallFailure::StreamEnded => Some("stream_ended"),
            CallFailure::Cancelled
            | CallFailure::Abandoned
            | CallFailure::Unread
            | CallFailure::NotRecorded
            | CallFailure::Bound(_)
            | CallFailure::Gateway => None,
        }
    }

    /// Whether the server may still be at work on the call.
    pub(super) fn gives_up(&self) -> bool {
        matches!(
            self,
            CallFailure::Timeout
                | CallFailure::Abandoned
                | CallFailure::Unread
                | CallFailure::Bound(_)
        )
    }

    /// The refusal that the client gets.
    pub(crate) fn to_refusal(&self) -> Refusal {
        match self {
            CallFailure::Timeout => Refusal::timeout(),
            CallFailure::Bound(bound) => Refusal::Busy(bound),
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
