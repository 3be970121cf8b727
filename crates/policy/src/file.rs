//! Policy files: parsing, error reporting and compilation.
//!
//! JSON and YAML are parsed into one tree of nodes with source positions
//! (`node`, `json`, `yaml`). The tree is checked against the language's tables
//! (`grammar`, `check`), from which the JSON Schema is generated too (`schema`), and
//! is then lowered into a [`Policy`] (`lower`). Tree, tables and problems are public for
//! importers of other dialects.

mod bases;
pub mod check;
pub mod grammar;
mod json;
mod lower;
pub mod node;
pub mod problem;
mod schema;
pub(crate) mod yaml;

use crate::policy::Policy;

pub use bases::{BaseText, Bases, MOST_IN_CHAIN, MissingBase, find_base};
pub use problem::Problem;
pub use schema::json_schema;

/// The longest policy text, in bytes.
const LONGEST_TEXT: usize = 1 << 20;
/// The deepest nesting of containers.
const DEEPEST: usize = 64;

/// The format of a policy's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    /// The format by a file's name: YAML for `.yaml` and `.yml`, JSON for all others.
    pub fn of_file_name(name: &str) -> Format {
        match std::path::Path::new(name).extension().and_then(std::ffi::OsStr::to_str) {
            Some("yaml" | "yml") => Format::Yaml,
            _ => Format::Json,
        }
    }
}

/// Compiles a policy that stands alone, or reports every problem in its text.
///
/// The policy's own tests are not run; see [`Policy::run_tests`].
/// It can extend no other policy; [`load_extending`] looks them up.
pub fn load(text: &[u8], format: Format) -> Result<Policy, Vec<Problem>> {
    load_extending(text, format, &bases::NoBases)
}

/// Compiles a policy with those that it extends, or reports every problem in its text.
pub fn load_extending(
    text: &[u8],
    format: Format,
    bases: &dyn Bases,
) -> Result<Policy, Vec<Problem>> {
    let mut problems = problem::Problems::default();
    let policy = read(text, format, &mut problems).map(|root| {
        check::check(&root, &mut problems);
        let chain = bases::read_chain(&root, bases, &mut problems);
        lower::lower(&root, &chain, &mut problems)
    });
    match policy {
        Some(policy) if problems.is_empty() => Ok(policy),
        _ => Err(problems.into_problems(text)),
    }
}

/// Parses a text into its tree, within the bounds of a policy; syntax errors are added to the
/// problems.
pub fn read(text: &[u8], format: Format, problems: &mut problem::Problems) -> Option<node::Node> {
    if text.len() > LONGEST_TEXT {
        problems.add(node::Span::at(0), "the policy is longer than 1 MiB".into());
        return None;
    }
    match format {
        Format::Json => json::read(text, problems),
        Format::Yaml => yaml::read(text, problems),
    }
}
