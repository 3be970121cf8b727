//! The JSON API of the admin listener, which the command line uses too.
//!
//! `ops` has the operations of an administrator; `api` serves them on the admin
//! listener, and `pages` has the pages for people, both behind `auth`. The running gateway is known only as a [`Live`].
//!
//! `known` is public because `sluice catalog` writes the same JSON as the API.
//!
//! The crate is large because the API has many nouns; each has one file in `ops`
//! and one in `api`.

mod api;
mod auth;
mod clock;
pub mod known;
mod live;
mod ops;
mod pages;
mod schema;

pub use api::{Api, AssessedTool, Settings};
pub use live::{
    Eventual, FileProblem, FileVersion, HeadExport, InForce, Live, Running, TakeError, Tool,
};
