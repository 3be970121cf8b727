//! The reader and the envelope from outside: what is refused and where, what
//! is kept, and agreement with an independent reader.

#![cfg(test)]

mod envelope;
mod keep;
mod oracle;
mod properties;
mod refuse;
