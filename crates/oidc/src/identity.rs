//! Who signed in, as the provider's ID token says.

use std::time::SystemTime;

use crate::Groups;

/// A person that a provider has identified. `issuer` and `subject` together are the name that
/// never changes; an email address may be given to somebody else later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub issuer: String,
    pub subject: String,
    pub email: Option<String>,
    /// Whether the provider says that the address is this person's. Without a statement it is not.
    pub email_verified: bool,
    /// The full name.
    pub name: Option<String>,
    /// The short name by which the person is known at the provider. Not unique.
    pub preferred_username: Option<String>,
    pub groups: Groups,
    pub issued_at: SystemTime,
    pub expires_at: SystemTime,
}
