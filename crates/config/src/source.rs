//! A file with its name and text, and parsing it as a policy.

use sluice_policy::{Format, Policy, Problem, load};

/// How many bytes of a policy are read: one more than the maximum, so that a policy that is too
/// long is detected.
pub const MOST_POLICY: u64 = (1 << 20) + 1;

/// A policy's file name and text.
#[derive(Debug)]
pub struct Source {
    pub name: String,
    pub text: Vec<u8>,
}

impl Source {
    /// The format, by the file's extension. Standard input has none, so text that starts like an
    /// object is JSON.
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

    /// The policy's own tests that fail, as problems with positions, and the total number of tests.
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
