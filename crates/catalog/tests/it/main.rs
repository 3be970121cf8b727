//! The catalogue from outside: importing, searching, looking up, sharing a file.

#![cfg(test)]

mod forms;
mod hostile;
mod scratch;
mod search;
mod share;
mod shipped;
