//! A file with its name and text, and parsing it as a policy.

use sluice_policy::{Format, Policy, Problem, load};

/// Bytes of a policy that are read: one more than a policy may have, so that a
/// longer one is told from the longest.
pub const MOST_POLICY: u64 = (1 << 20) + 1;

/// A policy's file name and text.
#[derive(Debug)]
pub struct Source {
    pub name: String,
    pub text: Vec<u8>,
}

impl Source {
    /// How it is written. Standard input has no ending to tell by: what begins
    /// like an object is JSON.
    pub fn format(&self) -> Format {
        match self.name.as_str() {
            "-" if !self.text.trim_ascii_start().starts_with(b"{") => Format::Yaml,
            name => Format::of_file_name(name),
        }
    }

    /// Compiles it as a policy.
    pub fn policy(&self) -> Result<Policy, Vec<Problem>> {
        load(&self.text, self.format())
    }

    /// The policy's own tests that fail, as problems at their places, and how
    /// many tests there are.
    pub fn failing_tests(&self, policy: &Policy) -> (Vec<Problem>, usize) {
        let results = policy.run_tests();
        let problems = results
            .iter()
            .filter_map(|test| {
                let failure = test.failure.as_ref()?;
                let message = format!("test `{}` fails: {failure}", test.name);
                Some(Problem::at(&self.text, test.offset, message))
            })
            .collect();
        (problems, results.len())
    }
}
