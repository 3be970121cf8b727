//! The JSON API that people and the command line use.
//!
//! `ops` has the operations of an administrator; `api` serves them on the admin
//! listener, behind `auth`. The running gateway is known only as a [`Live`].
//!
//! The crate is large because the API has many nouns; each has one file in `ops`
//! and one in `api`.

mod api;
mod auth;
mod clock;
mod failures;
pub mod known;
mod live;
mod ops;
mod schema;

pub use api::{Api, AssessedTool, Settings};
pub use live::{Eventual, FileProblem, FileVersion, InForce, Live, Running, TakeError, Tool};
