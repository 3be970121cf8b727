//! Durable state: charges and decisions, servers, policies and grants, and the audit
//! log.
//!
//! [`Store`] is the contract, in three parts by the consistency they need:
//! - `ledger`: exact and on the path of every call. [`Store::reserve`] charges a call
//!   and stores its decision, both or neither; [`Store::hold`] and its companions
//!   keep calls that await approval.
//! - `registry`: small and watched. Servers, policies and grants, each change with
//!   its [`Actor`], and [`Store::changes`].
//! - `log`: large and append-only. [`Store::page`] by [`Filter`] and [`Cursor`],
//!   [`Store::verify`], [`Store::prune`].
//!
//! Each is an enum over back-ends: `memory`, and `sqlite` for one machine. A new
//! back-end is a folder beside these two, an arm in each of the three enums and in
//! [`Store::open`], and must pass `tests/conformance.rs`. Nothing here knows policies: limits arrive
//! as numbers, which `reserve` enforces, and decisions as [`Record`]s.
//!
//! This crate is large because a change and its record are one transaction in every
//! back-end, so all durable state lives in one crate. About a third is the types of the
//! contract, which do no I/O; a third is the SQL of the tables, one file per kind of
//! object; a sixth is the commit path (`group_commit`, `writer`, `records`, `counters`);
//! the rest is the memory back-end and opening.

mod actor;
mod approval;
mod chain;
mod changes;
mod clock;
mod counter;
mod digest;
mod grant;
mod id;
mod key;
mod ledger;
mod log;
mod masked;
mod memory;
mod name;
mod record;
mod registry;
mod server;
mod sqlite;
mod store;

pub use actor::{Actor, Edit};
pub use approval::{Approval, ApprovalState, Decided, Held, Pending, Verdict, Vote};
pub use chain::{Anchor, Fault, Verified};
pub use changes::{Change, Changes};
pub use clock::Clock;
pub use counter::{Charge, CounterKey};
pub use grant::{Grant, NewGrant, Rotated, Token, TokenHash};
pub use id::{Id, new_id};
pub use key::Key;
pub use ledger::{Reservation, Reserved};
pub use log::{Cursor, CursorError, Entry, Filter, Page};
pub use masked::{MASK, MaskedTransport};
pub use name::{Name, NameError};
pub use record::{GrantRef, Kind, Outcome, PolicyRef, Record, UpstreamRef};
pub use registry::Snapshot;
pub use server::{
    AttachedPolicy, Bridge, Instances, PolicyVersion, Secret, Server, Source, Start, Transport,
};
pub use sqlite::{OpenError, commit_on_this_thread};
pub use store::{Durability, Health, Store, StoreConfig, StoreError};
