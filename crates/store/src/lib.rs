//! Counters, the audit log, and what people set up: servers, policies, grants,
//! approvals.
//!
//! A call may leave only when its charges are reserved and its decision is on
//! disk, and both happen in one transaction here: [`Store::reserve`]. One writes
//! at a time, and calls that arrive together share one commit. What was answered
//! survives `kill -9`, and power loss where [`Durability::Power`] is asked for.
//! How a call came out follows by [`Store::append_later`], which nobody waits for.
//!
//! The log is append-only and chained by hashes; [`Store::records`] finds its way
//! in it by an index that is built behind it, and [`Store::prune`] leaves an anchor
//! from which [`Store::verify`] goes on. What is secret is sealed with a [`Key`].
//!
//! Nothing here judges: limits arrive as numbers, decisions as [`Record`]s.
//! It is large because all that is kept is in one file with one writer, so that a
//! change and its record are one transaction.

mod approval;
mod chain;
mod counter;
mod digest;
mod grant;
mod id;
mod key;
mod moment;
mod name;
mod record;
mod server;
mod sheet;
mod sqlite;

pub use approval::{Approval, Pending};
pub use chain::{Fault, Verified};
pub use counter::{Charge, CounterKey};
pub use grant::{Grant, NewGrant, Rotated, Token, TokenHash};
pub use id::{Id, new_id};
pub use key::Key;
pub use name::{Name, NameError};
pub use record::{GrantRef, Kind, PolicyRef, Record, UpstreamRef};
pub use server::{
    AttachedPolicy, Bridge, Instances, PolicyVersion, Secret, Server, Source, Start, Transport,
};
pub use sqlite::{Durability, Filter, Health, OpenError, Reservation, Store, StoreError};
