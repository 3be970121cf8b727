//! What tests of several crates need.
