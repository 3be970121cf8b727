//! The gateway's status of its files: warns if the last config reload failed.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use super::{Gateway, Question};
use crate::output::{HELD, remark, visible};

/// The position of a problem in a file.
#[derive(Debug, Deserialize)]
struct FileProblem {
    file: String,
    line: usize,
    column: usize,
    message: String,
    hint: Option<String>,
}

impl Gateway {
    /// The problems of the last config reload, as the API returns them.
    pub(crate) fn file_problems(&self) -> anyhow::Result<Value> {
        let mut status = self.ask(Question::get(&["status"]))?;
        Ok(status.get_mut("problems").map_or_else(|| Value::Array(Vec::new()), Value::take))
    }

    /// Warns if the files differ from the active configuration.
    pub(crate) fn warn_of_files(&self) -> anyhow::Result<()> {
        let problems: Vec<FileProblem> = serde_json::from_value(self.file_problems()?)?;
        Ok(remark(&warning(&problems))?)
    }
}

fn warning(problems: &[FileProblem]) -> String {
    let mut text = String::new();
    // Policies that are not in force because of what they extend are no file of the configuration.
    if problems.iter().any(|problem| !problem.file.starts_with("policy `")) {
        text = format!(
            "{HELD}warning{HELD:#}: the last config reload failed; the previous configuration is active\n"
        );
    }
    if text.is_empty() && !problems.is_empty() {
        text = format!("{HELD}warning{HELD:#}: a policy cannot be in force\n");
    }
    for FileProblem { file, line, column, message, hint } in problems {
        let (file, message) = (visible(file), visible(message));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {file}:{line}:{column}: {message}");
        if let Some(hint) = hint {
            let _ = writeln!(text, "    hint: {}", visible(hint));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{FileProblem, warning};

    #[test]
    fn only_file_problems_are_warned_of() {
        assert_eq!(warning(&[]), "");
        let problem = FileProblem {
            file: "sluice.toml".into(),
            line: 3,
            column: 1,
            message: "no\n".into(),
            hint: Some("yes".into()),
        };
        let text = warning(&[problem]);
        assert!(text.ends_with("  sluice.toml:3:1: no\\u{a}\n    hint: yes\n"), "{text}");
    }
}
