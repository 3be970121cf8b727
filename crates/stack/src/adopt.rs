//! Routes servers through Sluicegate: plans the new entries and rewrites the file.

use serde_json::Value;

use crate::{
    diff,
    digest::Fingerprints,
    entry::{self, Entry, Spot, Transport},
    file::{ConfigFile, body, with_body},
    json,
    locations::{FileFormat, Syntax},
    splice, tables,
    wrapped::URL_VARIABLE,
};

/// How clients start Sluicegate.
#[derive(Debug, Clone)]
pub struct Front {
    /// The path that clients start.
    pub program: String,
    /// The program after resolving links: earlier entries may contain this path.
    pub real: String,
    /// Its data directory.
    pub data: String,
    /// The fingerprints that distinguish servers by the values of their variables, once the key
    /// exists.
    pub fingerprints: Option<Fingerprints>,
}

impl Front {
    /// Whether a path is one that clients start, or have started earlier.
    pub(crate) fn is_program(&self, path: &str) -> bool {
        path == self.program || path == self.real
    }
}

/// One server to be adopted: the entry, its name and its policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan<'e> {
    pub entry: &'e Entry,
    /// Its name in counters and the log.
    pub name: String,
    /// The path of its policy.
    pub policy: String,
}

/// The planned rewrite of a file.
pub struct Adoption<'e> {
    pub(crate) text: String,
    pub adopted: Vec<&'e Entry>,
    /// The new entries.
    pub written: Vec<Entry>,
    pub refused: Vec<(&'e Entry, AdoptError)>,
    /// The diff of each entry, for people, with secrets masked.
    pub diff: String,
}

impl std::fmt::Debug for Adoption<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Adoption({:?}, refused {:?})", self.adopted, self.refused)
    }
}

/// Why a server cannot be adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    #[error("it goes through Sluicegate already")]
    Already,
    #[error(
        "it is a `sluice wrap` that `adopt` has not written\nhint: look at its command and policy; `sluice stack hook --accept` lets it pass as it is"
    )]
    Wrap,
    #[error("its file has the name twice\nhint: remove one of the two")]
    Repeated,
    #[error(
        "its entry has keys that Sluicegate cannot put itself before\nhint: add the server by hand with `sluice wrap`"
    )]
    Shape,
    #[error(
        "its URL has a user in it, which Sluicegate does not send\nhint: put the credential into a header"
    )]
    User,
    #[error("its entry has neither a command nor a URL that is a text")]
    Unclear,
    #[error("its file belongs to another user")]
    Foreign,
    #[error("its file is read-only\nhint: chmod u+w it, if it may be changed")]
    ReadOnly,
    #[error("it is no longer in its file")]
    Gone,
}

/// The change to an entry.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Another program, with arguments prepended to the existing ones.
    Command { program: String, prefix: Vec<String> },
    /// A command instead of a URL; headers become variables.
    Url {
        program: String,
        args: Vec<String>,
        /// Headers, and the variables that hold their values.
        variables: Vec<(String, String)>,
        /// The client's variable that holds a bearer token.
        bearer: Option<String>,
    },
}

impl ConfigFile {
    /// The file with these servers routed through Sluicegate.
    pub fn adopt<'e>(&self, plans: &[Plan<'e>], front: &Front) -> Adoption<'e> {
        let mut text = body(&self.text).to_owned();
        let mut adoption = Adoption {
            text: String::new(),
            adopted: Vec::new(),
            written: Vec::new(),
            refused: Vec::new(),
            diff: String::new(),
        };
        for plan in plans {
            match self.rewritten(&text, plan, front) {
                Ok((new, entry)) => {
                    let sides = [&text, &new].map(|text| value(text, self.form, &plan.entry.keys));
                    adoption.diff.push_str(&diff::diff_entry(
                        self.form.syntax,
                        &plan.entry.keys,
                        sides,
                    ));
                    adoption.adopted.push(plan.entry);
                    adoption.written.push(entry);
                    text = new;
                }
                Err(error) => adoption.refused.push((plan.entry, error)),
            }
        }
        adoption.text = with_body(&self.text, text);
        adoption
    }

    /// The text with one server adopted, and its new entry.
    fn rewritten(
        &self,
        text: &str,
        plan: &Plan<'_>,
        front: &Front,
    ) -> Result<(String, Entry), AdoptError> {
        if plan.entry.wrapped.is_some() {
            return Err(AdoptError::Already);
        }
        if plan.entry.is_wrap() {
            return Err(AdoptError::Wrap);
        }
        if plan.entry.is_repeated {
            return Err(AdoptError::Repeated);
        }
        if self.is_foreign {
            return Err(AdoptError::Foreign);
        }
        if self.is_read_only {
            return Err(AdoptError::ReadOnly);
        }
        let keys = &plan.entry.keys;
        let before = value(text, self.form, keys).ok_or(AdoptError::Gone)?;
        let change = change(plan, front, &before)?;
        let edits = match self.form.syntax {
            Syntax::Json => json::edits(text, keys, &change)?,
            Syntax::Toml => tables::edits(text, keys, &change)?,
        };
        let new = splice::splice(text, edits).ok_or(AdoptError::Shape)?;
        // INVARIANT: the new text parses to the same server, behind Sluicegate; otherwise nothing
        // is written.
        let read = crate::file::locate_entries(&new, self.form).map_err(|_| AdoptError::Shape)?;
        let now = read.iter().find(|one| &one.keys == keys).ok_or(AdoptError::Shape)?;
        let spot = Spot {
            client: self.client,
            file: &self.path,
            scope: &self.scope,
            keys,
            is_repeated: now.is_repeated,
            front,
        };
        let written = entry::read(&spot, &now.value);
        let is_same = written.wrapped.is_some() && written.transport == plan.entry.transport;
        if is_same { Ok((new, written)) } else { Err(AdoptError::Shape) }
    }
}

pub(crate) fn value(text: &str, form: FileFormat, keys: &[String]) -> Option<Value> {
    match form.syntax {
        Syntax::Json => json::value(text, keys),
        Syntax::Toml => tables::value(text, keys),
    }
}

fn change(plan: &Plan<'_>, front: &Front, entry: &Value) -> Result<Change, AdoptError> {
    let program = front.program.clone();
    let mut args: Vec<String> =
        ["wrap", "--data", &front.data, "--policy", &plan.policy, "--name", &plan.name]
            .map(String::from)
            .to_vec();
    match &plan.entry.transport {
        Transport::Command { program: original, .. } => {
            args.extend(["--".to_owned(), original.expose().to_owned()]);
            Ok(Change::Command { program, prefix: args })
        }
        Transport::Url { url, headers } => {
            if url.expose().split('/').nth(2).is_some_and(|host| host.contains('@')) {
                return Err(AdoptError::User);
            }
            // Arguments are visible to every user of a machine, and any part of a URL may be a
            // secret.
            args.extend(["--url".to_owned(), format!("env:{URL_VARIABLE}")]);
            let bearer =
                entry.get("bearer_token_env_var").and_then(Value::as_str).map(String::from);
            let held = headers.len() - usize::from(bearer.is_some());
            let mut variables: Vec<(String, String)> = Vec::new();
            for (header, _) in headers.iter().take(held) {
                let variable = variable(header, &variables);
                args.extend(["--header".to_owned(), format!("{header}: env:{variable}")]);
                variables.push((header.clone(), variable));
            }
            if let Some(token) = &bearer {
                args.extend(["--header".to_owned(), format!("Authorization: Bearer env:{token}")]);
            }
            Ok(Change::Url { program, args, variables, bearer })
        }
        Transport::Unclear => Err(AdoptError::Unclear),
    }
}

/// A unique variable for a header's value.
fn variable(header: &str, taken: &[(String, String)]) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = header.chars().map(fits).collect();
    let name = format!("SLUICE_HEADER_{name}");
    let is_free = |name: &str| !taken.iter().any(|(_, variable)| variable == name);
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| is_free(name)).unwrap_or(name)
}
