//! The store from outside: on real files, with real threads and real kills.

#![cfg(test)]

mod crash;
mod folder;
mod grants;
mod limits;
mod log;
mod opening;
