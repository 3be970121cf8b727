//! Findings.
use crate::{siblings::Siblings, definition::{Definition, Parameter}};
/// x
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding;
pub(crate) fn find(_: &Definition<'_>, _: &[Parameter<'_>], _: &Siblings<'_>) -> Vec<Finding> { Vec::new() }
