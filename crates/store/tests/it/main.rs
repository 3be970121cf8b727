//! The store from outside: on real files, with real threads and real kills.

#![cfg(test)]

mod checkpoints;
mod counting;
mod crash;
mod filters;
mod folder;
mod full;
mod grants;
mod limits;
mod log;
mod opening;
mod pile;
mod retention;
mod setup;
