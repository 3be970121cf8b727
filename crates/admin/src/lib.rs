//! The JSON API that people and the command line use.

mod live;

pub use live::{Eventual, FileProblem, InForce, Live, TakeError, Tool};
