//! Policies in YAML: nothing panics, and every policy that loads can judge.

use sluice_policy::Format;

/// Loads `data`, and judges by it if it is a policy.
pub fn check(data: &[u8]) {
    crate::policy::check(data, Format::Yaml);
}
