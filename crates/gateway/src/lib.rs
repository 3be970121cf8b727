//! The data path: every call judged before it leaves.
//!
//! The way of a call, one module a step: `listen` takes connections, `plane`
//! looks at the path, `identify` finds out who calls, `receive` reads the
//! message, `spoken` in which revision, `post` through which door, `assess` what
//! is known of the tool, `decide` judges, reserves and records and gives a
//! `Permit`, `forward` sends what has one, `answer` checks and filters what
//! comes back, `settle` records how it ended. `refusal` is what a client is told
//! otherwise.
//!
//! It is large because clients come by four transports and in two eras, and all of
//! them must go this one way; `ARCHITECTURE.md` has the map.

mod answer;
mod assess;
mod body;
mod credential;
mod decide;
mod failures;
mod forward;
mod gateway;
mod grants;
mod identify;
mod legacy_sse;
mod link;
mod listen;
mod metrics;
mod plane;
mod post;
mod receive;
mod refusal;
mod repair;
mod response;
mod seal;
mod session;
mod settings;
mod settle;
mod snapshot;
mod spoken;
mod stack;
mod stream;
mod subscriptions;
mod visit;
mod wrap;

pub use gateway::{Gateway, KnownTool};
pub use listen::{Commits, Threads, Tls, TlsError};
pub use settings::Settings;
pub use snapshot::{ApplyError, Builtins, Configuration, MakeBuiltin};
pub use wrap::{Ended, Wrap, Wrapped};
