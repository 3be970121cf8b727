//! Counters, the audit log, and grants.
//!
//! A call may leave only when its charges are reserved and its decision is on
//! disk, and both happen in one transaction here: [`Store::reserve`]. One thread
//! writes, and calls that arrive together share one commit. What was answered
//! survives `kill -9`, and power loss where [`Durability::Power`] is asked for.
//!
//! Nothing here judges: limits arrive as numbers, decisions as [`Record`]s.

mod chain;
mod counter;
mod grant;
mod id;
mod name;
mod record;
mod server;
mod sqlite;

pub use chain::{Fault, Verified};
pub use counter::{Charge, CounterKey};
pub use grant::{Grant, NewGrant, Token, TokenHash};
pub use id::new_id;
pub use name::{Name, NameError};
pub use record::{GrantRef, Kind, PolicyRef, Record, UpstreamRef};
pub use server::{AttachedPolicy, Secret, Server, Source, Transport};
pub use sqlite::{Durability, Filter, OpenError, Reservation, Store, StoreError};
