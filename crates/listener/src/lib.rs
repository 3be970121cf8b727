//! Code shared by the agent listener and the admin listener: the check of `Host` and `Origin`,
//! parsing of a bearer token, and the limiter for records of failed authentications.
//!
//! Everything here is pure. Both listeners turn the results into their own responses and records;
//! this crate knows neither policies nor the store.

mod allowed;
mod authority;
mod bearer;
mod failed_attempts;

pub use allowed::{AllowedCallers, CallerError, HostError};
pub use bearer::bearer_token;
pub use failed_attempts::{FailedAttempts, Noted, Source, Sum};
