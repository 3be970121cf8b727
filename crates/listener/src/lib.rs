//! Code shared by the agent listener and the admin listener: the check of `Host` and `Origin`,
//! parsing of a bearer token, and the messages and the limiter for records of failed
//! authentications.
//!
//! Nothing here does I/O. Both listeners turn the results into their own responses and records;
//! this crate knows neither policies nor the store.

mod allowed;
mod authority;
mod bearer;
mod failed_attempts;
mod failures;

pub use allowed::{AllowedCallers, CallerError, HostError};
pub use bearer::bearer_token;
pub use failures::{Failure, Failures, SWEEP};
