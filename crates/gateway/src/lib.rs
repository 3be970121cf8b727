//! The data path: every call is judged before it is sent.
//!
//! The path of a call is one function, `call::carry`, whose steps are modules: `judge`
//! decides, `reserve` charges and records and makes a `Permitted` request, `send` sends
//! it, `answer` checks and filters the answer, `settle` records how the call ended.
//! Before that, `listen` accepts connections, `agent_listener` dispatches by path and
//! `authenticate` finds the caller's grant; `refusal` builds the response if the server
//! gives no answer.
//!
//! This crate is large because clients use four transports and two eras, and all of them
//! must follow this one path; `ARCHITECTURE.md` has the map.

mod agent_listener;
mod answer;
mod assess;
mod authenticate;
mod body;
mod budget;
mod call;
mod cancel;
mod connections;
mod credential;
mod decide;
mod exchange;
mod gateway;
mod grants;
mod hops;
mod judge;
mod keys;
mod legacy_sse;
mod link;
mod list_changes;
mod listen;
mod live_config;
mod metrics;
mod outlive;
mod protocol_version;
mod receive;
mod refusal;
mod repair;
mod reserve;
mod response;
mod rounds;
mod seal;
mod sealed_ids;
mod send;
mod session;
mod session_stream;
mod settings;
mod settle;
mod shares;
mod snapshot;
mod stack;
mod subscriptions;
mod wrap;

pub use gateway::{Gateway, KnownTool};
pub use hops::Hops;
pub use listen::{Commits, Threads, Tls, TlsError};
// For the fuzzer, which has no other way to them.
pub use seal::{Purpose, Seal};
pub use settings::{ClientTimes, Settings};
pub use shares::ShareLimits;
pub use snapshot::{ApplyError, Builtins, Configuration, MakeBuiltin};
pub use wrap::{Ended, Wrap, Wrapped};
