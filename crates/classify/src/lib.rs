//! What a tool can do to the world.
//!
//! A category is evidence for policies and people; nothing is decided here.

mod category;

pub use category::{Category, from_hints};
