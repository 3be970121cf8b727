//! The author of a registry change, and the text of the change for the audit record.

use std::sync::Arc;

/// The author of a change: a person, an API token, or the gateway itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub id: Arc<str>,
    pub label: Arc<str>,
    /// The network address they acted from, if there was one.
    pub address: Option<Arc<str>>,
}

impl Actor {
    /// An actor without a network address.
    pub fn local(id: &str, label: &str) -> Actor {
        Actor { id: id.into(), label: label.into(), address: None }
    }

    /// The gateway itself: starts, stops, reloads and expiry.
    pub fn gateway() -> Actor {
        Actor::local("gateway", "gateway")
    }
}

/// The author of a registry change, and the message for its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub actor: Actor,
    pub message: String,
}
