//! The embedded back-end from outside: on real files, with real processes and
//! real kills. What holds for every back-end is in `conformance.rs`.

#![cfg(test)]

mod auditor;
mod checkpoints;
mod crash;
mod deferred;
mod folder;
mod full;
mod locked;
mod opening;
mod size;
mod tampering;
