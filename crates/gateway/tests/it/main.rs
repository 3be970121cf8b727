//! The data path from outside: real sockets, a recording upstream as the judge,
//! and a clock that stands still.

#![cfg(test)]

mod approval;
mod audit;
mod bridge;
mod bridge_questions;
mod bridge_to_legacy;
mod bridge_to_modern;
mod call;
mod envelope;
mod eras;
mod event_streams;
mod framing;
mod harness;
mod headers;
mod http2;
mod identity;
mod json;
mod limits;
mod lists;
mod method_classes;
mod mutations;
mod old_clients;
mod old_clients_stack;
mod old_servers;
mod redefinition;
mod repair;
mod server_requests;
mod sessions;
mod shadow;
mod stack;
mod stack_modern;
mod stack_sessions;
mod store_faults;
mod streams;
mod talk;
mod tasks;
mod upstream_faults;
mod upstream_statuses;
