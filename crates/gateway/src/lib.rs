//! The data path: every call is judged before it is sent.
//!
//! The path of a call is one function, `call::carry`, whose steps are modules: `judge`
//! decides, `reserve` charges and records and makes a `Permitted` request, `send` sends
//! it, `answer` checks and filters the answer, `settle` records how the call ended.
//! Before that, `listen` accepts connections, `agent_listener` dispatches by path and
//! `identify` identifies the caller; `refusal` builds the response if the server gives no
//! answer.
//!
//! This crate is large because clients use four transports and two eras, and all of them
//! must follow this one path; `ARCHITECTURE.md` has the map.

mod agent_listener;
mod answer;
mod assess;
mod body;
mod call;
mod connections;
mod credential;
mod exchange;
mod failures;
mod gateway;
mod grants;
mod identify;
mod judge;
mod keys;
mod legacy_sse;
mod link;
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
mod seal;
mod sealed_ids;
mod send;
mod session;
mod settings;
mod settle;
mod snapshot;
mod stack;
mod stream;
mod subscriptions;
mod wrap;

pub use gateway::{Gateway, KnownTool};
pub use listen::{Commits, Threads, Tls, TlsError};
pub use settings::Settings;
pub use snapshot::{ApplyError, Builtins, Configuration, MakeBuiltin};
pub use wrap::{Ended, Wrap, Wrapped};
