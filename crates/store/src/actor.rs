//! Who changes the registry, and the message that its record carries.

use std::sync::Arc;

/// The author of a change: a person, a token of the API, or the gateway itself.
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

    /// The gateway itself: starts, stops, reloads and what expires.
    pub fn gateway() -> Actor {
        Actor::local("gateway", "gateway")
    }
}

/// Who makes a change of the registry, and the message its record carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub actor: Actor,
    pub message: String,
}
