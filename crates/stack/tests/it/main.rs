//! Client files as they are found: each form of file there and back again.

#![cfg(test)]

mod accepted;
mod cases;
mod crash;
mod disk;
mod hooks;
mod laws;
mod looks;
mod machine;
mod restore;
