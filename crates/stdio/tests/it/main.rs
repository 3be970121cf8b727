//! Servers that are real processes, spoken to as the gateway does.

#![cfg(test)]

mod client;
mod faults;
mod health;
mod lifetime;
mod modern;
mod only;
mod own;
mod shared;
