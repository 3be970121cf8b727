//! Durable state: charges and decisions, servers, policies and grants, and the audit
//! log.
//!
//! [`Store`] is the contract, in three parts by the consistency they need:
//! - `ledger`: exact and on the path of every call. [`Store::reserve`] charges a call
//!   and stores its decision, both or neither; [`Store::hold`] and its companions
//!   keep calls that await approval.
//! - `registry`: small and watched. Servers, policies, grants, and (in `people`) people, each
//!   change with its [`Actor`], and [`Store::changes`].
//! - `log`: large and append-only. [`Store::page`] by [`Filter`] and [`Cursor`],
//!   [`Store::verify`], [`Store::prune`].
//!
//! The parts are three enums, `Ledger`, `Registry` and `Log`, with one variant per back-end:
//! `memory`, and `sqlite` for one machine. A new back-end is a folder beside these two and a
//! variant in each enum (the compiler lists the match arms), and must pass
//! `tests/conformance.rs`; CONTRIBUTING.md has the steps. Back-ends share the rules that do
//! not depend on storage: `chain`, `record`, `counter`, `approval`, and `ledger`'s
//! `OpenReservations`.
//!
//! Nothing here judges calls: `bases` looks up what a policy extends, limits arrive as numbers, which `reserve` enforces, and
//! decisions as [`Record`]s. [`commit_on_this_thread`] is a hint to every back-end; those that
//! commit elsewhere ignore it.
//!
//! This crate is large because no change is stored without its record, so all durable state
//! lives in one crate. About a third is the types of the contract, which do no
//! I/O; a third is the SQL of the tables, one file per kind of object; a sixth is the commit
//! path (`group_commit`, `writer`, `records`, `counters`); the rest is the memory back-end and
//! opening.

mod actor;
mod approval;
mod bases;
mod chain;
mod changes;
mod clock;
mod counter;
mod digest;
mod grant;
mod head;
mod id;
mod key;
mod ledger;
mod log;
mod log_space;
mod masked;
mod memory;
mod name;
mod people;
mod record;
mod registry;
mod scrub;
mod server;
mod signed_head;
mod sqlite;
mod store;
mod trusted_time;

pub use actor::{Actor, Edit};
pub use approval::{Approval, ApprovalState, Decided, Held, Pending, Verdict, Vote};
pub use bases::BaseFile;
pub use chain::{Anchor, Fault, Verified};
pub use changes::{Change, Changes};
pub use clock::Clock;
pub use counter::{Charge, CounterKey, Lease};
pub use grant::{
    ChangedGrant, Grant, GrantEdit, GrantTokens, NewGrant, Patch, Rotated, Token, TokenHash,
};
pub use head::Disagreement;
pub use id::{Id, new_id};
pub use key::Key;
pub use ledger::{Reservation, Reserved};
pub use log::{Cursor, CursorError, Entry, Filter, Page};
pub use log_space::{LogSpace, Retention};
pub use masked::{MASK, MaskedTransport};
pub use name::{Name, NameError};
pub use people::{
    Access, Account, AccountChange, ApiToken, Identity, Invitation, LoginError, NewApiToken,
    NewPerson, NewSession, Person, PersonEdit, Role, Session,
};
pub use record::{GrantRef, Kind, Outcome, PolicyRef, Record, UpstreamRef};
pub use registry::Snapshot;
pub use scrub::{ScrubReport, ScrubStep};
pub use server::{
    AttachedPolicy, Bridge, DeclaredServer, HiddenText, Instances, PolicyVersion, Secret, Server,
    Source, Start, Transport,
};
pub use signed_head::{HeadComparison, HeadFault, HeadMismatch, SignedHead};
pub use sqlite::{backup::DatabaseLock, commit_on_this_thread};
pub use store::{Durability, Health, OpenError, Store, StoreConfig, StoreError};
pub use trusted_time::describe_clock;
