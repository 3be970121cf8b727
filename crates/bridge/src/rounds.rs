//! One request of a client that is sent several times: a modern server may ask for input in
//! its answer, and the bridge then repeats the request for a legacy client.

use std::{fmt, pin::Pin};

use sluice_wire::json::Document;

/// A request that may not be sent: the JSON-RPC message that answers the client instead.
#[derive(Debug)]
pub struct RefusedRound(pub String);

/// The result of asking whether a request may be sent.
pub type RoundPermission<'r> = Pin<Box<dyn Future<Output = Result<(), RefusedRound>> + Send + 'r>>;

/// Follows the rounds of one request, each of which is a call of its own: it must be permitted,
/// and has an outcome. The first one is permitted when the request gets to the bridge, and the
/// last one ends with the answer to the client.
pub trait Rounds: fmt::Debug + Send + Sync {
    /// The server has answered a round, which is not the answer to the client.
    fn end(&self, how: RoundEnd);

    /// Asks whether the request, as the client has made it, may be sent again.
    fn begin<'r>(&'r self, request: &'r Document) -> RoundPermission<'r>;
}

/// How a round ended that is not the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundEnd {
    /// The server wants input.
    WantsInput,
    /// The server refused the headers.
    Refused,
}
