//! The policy engine from outside: cases as data, and laws as properties.
// Tells clippy that helpers here are test code too.
#![cfg(test)]

mod callers;
mod cases;
mod docs;
mod generate;
mod known_bases;
mod laws;
mod oracle;
mod oracle_page;
mod schema;
mod self_tests;
mod warnings;
