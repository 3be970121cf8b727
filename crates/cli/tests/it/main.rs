//! The command line from outside: the real binary, as a user runs it.

#![cfg(test)]

mod completions;
mod config;
mod policy;
mod readme;
mod sluice;
