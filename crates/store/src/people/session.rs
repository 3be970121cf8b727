//! Sessions in a browser.

use sluice_policy::Timestamp;

use crate::grant::TokenHash;

/// The most sessions of one person; a new one ends the oldest.
pub(crate) const MOST_OF_PERSON: usize = 20;

/// A session that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The hash of the cookie's value.
    pub token: TokenHash,
    /// The id of the person; `None` for the owner of the data directory.
    pub person: Option<String>,
    /// The address that signed in.
    pub address: String,
    pub created_at: Timestamp,
    /// When it was last used, to the minute.
    pub used_at: Timestamp,
    /// When it ends, however it is used.
    pub expires_at: Timestamp,
}

/// A session that begins now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    pub token: TokenHash,
    /// The id of the person; `None` for the owner of the data directory.
    pub person: Option<String>,
    pub address: String,
    pub expires_at: Timestamp,
}

impl NewSession {
    pub(crate) fn begin(self, now: Timestamp) -> Session {
        let NewSession { token, person, address, expires_at } = self;
        Session { token, person, address, created_at: now, used_at: now, expires_at }
    }
}
