//! The crate from outside: cases as data, and hostile definitions.

#![cfg(test)]

mod cases;
mod hostile;
