//! What the agent listener and the admin listener have in common: the check of
//! `Host` and `Origin`, the form of a bearer token, and which failed attempts to
//! authenticate are recorded.
//!
//! Everything here is pure. Both listeners turn its verdicts into their own
//! responses and records; it knows neither policies nor the store.

mod allowed;
mod authority;
mod bearer;
mod failed_attempts;

pub use allowed::{AllowedCallers, CallerError, HostError};
pub use bearer::bearer_token;
pub use failed_attempts::{FailedAttempts, Noted, Source, Sum};
