//! API tokens of people, for programs that act in their name.

use sluice_policy::Timestamp;

use super::role::Access;
use crate::{actor::Actor, id};

/// An API token, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    pub id: String,
    /// The id of its person.
    pub person: String,
    pub label: String,
    /// It may do what both this and the access of the person allow.
    pub access: Access,
    pub created_at: Timestamp,
    /// The label of the creator.
    pub created_by: String,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// When a request with it was last accepted, to the minute.
    pub last_used: Option<Timestamp>,
}

/// The properties of a new API token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiToken {
    pub person: String,
    pub label: String,
    pub access: Access,
    pub expires_at: Option<Timestamp>,
}

impl NewApiToken {
    pub(crate) fn into_token(self, now: Timestamp, creator: &Actor) -> ApiToken {
        let NewApiToken { person, label, access, expires_at } = self;
        ApiToken {
            id: id::new_id(now).to_string(),
            person,
            label,
            access,
            created_at: now,
            created_by: creator.label.to_string(),
            expires_at,
            revoked_at: None,
            last_used: None,
        }
    }
}

impl ApiToken {
    /// Whether it is valid at this time.
    pub fn is_valid(&self, at: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| at < end)
    }
}
