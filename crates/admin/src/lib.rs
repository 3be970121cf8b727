//! The JSON API that people and the command line use.
//!
//! `ops` is what an administrator can do; `api` puts it on the people's plane,
//! behind `auth`. The running gateway is known only as a [`Live`].
//!
//! It is large because the API has many nouns; each has one file here and there.

mod api;
mod auth;
mod clock;
mod failures;
pub mod known;
mod live;
mod ops;

pub use api::{Api, AssessedTool, Settings};
pub use live::{Eventual, FileProblem, FileVersion, InForce, Live, Running, TakeError, Tool};
