//! Real server processes, used as the gateway uses them.

#![cfg(test)]

mod client;
mod faults;
mod health;
mod lifetime;
mod modern;
mod only;
mod own;
mod shared;
