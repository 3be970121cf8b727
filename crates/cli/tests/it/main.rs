//! The command line from outside: the real binary, as a user runs it.

#![cfg(test)]

mod access;
mod addresses;
mod audit_space;
mod backup;
mod catalog;
mod chaos;
mod classify;
mod clock;
mod completions;
mod config;
mod crash;
mod few_files;
mod golden;
mod heads;
mod help;
mod history;
mod keys;
mod limits;
mod live;
mod log;
mod log_lines;
mod losses;
mod metrics;
mod mistakes;
mod namesakes;
mod operate;
mod pharo;
mod policy;
mod readme;
mod refused_addresses;
mod reload;
mod removed;
mod running;
mod scan;
mod scrub;
mod secrets;
mod sluice;
mod soak;
mod stack;
mod stalled;
mod stdio;
mod tls;
mod up;
mod wrap;
