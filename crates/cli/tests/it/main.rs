//! The command line from outside: the real binary, as a user runs it.

#![cfg(test)]

mod catalog;
mod classify;
mod completions;
mod config;
mod crash;
mod golden;
mod history;
mod live;
mod operate;
mod pharo;
mod policy;
mod readme;
mod reload;
mod running;
mod scan;
mod sluice;
mod soak;
mod stack;
mod stalled;
mod stdio;
mod tls;
mod up;
mod wrap;
