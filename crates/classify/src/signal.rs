//! Signals.
use crate::{Category, definition::{Definition, Parameter}};
/// x
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal;
pub(crate) fn find(_: &Definition<'_>, _: &[Parameter<'_>], _: Category) -> Vec<Signal> { Vec::new() }
