//! The embedded back-end from outside: on real files, with real processes and
//! real kills. What holds for every back-end is in `conformance.rs`.

#![cfg(test)]

mod alterations;
mod auditor;
mod checkpoints;
mod deferred;
mod exported_heads;
mod folder;
mod full;
mod locked;
mod losses;
mod opening;
mod scrub;
mod size;
mod tampering;
