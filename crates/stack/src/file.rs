//! A client's configuration file, parsed, with its server entries.

use std::{fmt, ops::Range, path::PathBuf};

use serde_json::Value;

use crate::{
    adopt::Front,
    client::Client,
    digest::sha256,
    disk,
    entry::{self, Entry, Scope, Spot},
    json,
    locations::{Candidate, FileFormat, Syntax},
    tables,
};

/// A byte order mark, which some editors write.
const MARK: char = '\u{feff}';

/// The maximum number of servers in one file: more than anybody has, and few enough to check each
/// while a client waits.
const MOST_SERVERS: usize = 5000;

/// A file that was read.
pub struct ConfigFile {
    pub client: Client,
    /// Where it was found.
    pub path: PathBuf,
    pub scope: Scope,
    pub entries: Vec<Entry>,
    /// The file after resolving links.
    pub real: PathBuf,
    /// Whether another user owns it, so that it cannot be rewritten.
    pub is_foreign: bool,
    /// Whether even its owner may not write it.
    pub is_read_only: bool,
    pub(crate) form: FileFormat,
    /// The whole text, including secrets.
    pub(crate) text: String,
}

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its text may hold secrets.
        write!(f, "ConfigFile({}, {:?})", self.path.display(), self.entries)
    }
}

/// The state of a candidate file.
#[derive(Debug)]
pub enum FileState {
    Nothing,
    File(Box<ConfigFile>),
    Broken(Problem),
}

/// A file that cannot be read or parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub client: Client,
    pub path: PathBuf,
    pub scope: Scope,
    /// Line and column, both from 1, if known.
    pub at: Option<(usize, usize)>,
    pub message: String,
}

/// A syntax error in a client's file, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) at: usize,
    pub(crate) message: String,
}

/// A server entry in a text.
pub(crate) struct Located {
    pub(crate) keys: Vec<String>,
    pub(crate) value: Value,
    pub(crate) is_repeated: bool,
}

/// The byte ranges of a server's program and arguments.
pub(crate) struct Pieces {
    pub(crate) program: Range<usize>,
    pub(crate) args: Option<Range<usize>>,
}

impl Candidate {
    /// Reads the file, if it exists. `front` tells which entries `adopt` has written.
    pub fn read(&self, front: &Front) -> FileState {
        let problem = |at, message| {
            let Candidate { client, path, scope, .. } = self.clone();
            FileState::Broken(Problem { client, path, scope, at, message })
        };
        let read = match disk::read(&self.path) {
            Ok(None) => return FileState::Nothing,
            Ok(Some(read)) => read,
            Err(error) => return problem(None, error.to_string()),
        };
        match locate_entries(&read.content, self.form) {
            Ok(located) => {
                let disk::Text { content: text, real, is_foreign, is_read_only } = read;
                let entries = located.iter().map(|one| self.entry(one, front)).collect();
                let Candidate { client, path, scope, form } = self.clone();
                FileState::File(Box::new(ConfigFile {
                    client,
                    path,
                    scope,
                    entries,
                    real,
                    is_foreign,
                    is_read_only,
                    form,
                    text,
                }))
            }
            Err(spoilt) => problem(Some(position(body(&read.content), spoilt.at)), spoilt.message),
        }
    }

    fn entry(&self, located: &Located, front: &Front) -> Entry {
        let spot = Spot {
            client: self.client,
            file: &self.path,
            scope: &self.scope,
            keys: &located.keys,
            is_repeated: located.is_repeated,
            front,
        };
        entry::read(&spot, &located.value)
    }
}

impl ConfigFile {
    /// The SHA-256 of its text.
    pub fn digest(&self) -> String {
        sha256(self.text.as_bytes())
    }

    /// The folders that Claude Code lists as projects in its own file.
    pub fn projects(&self) -> Vec<PathBuf> {
        if self.client != Client::ClaudeCode {
            return Vec::new();
        }
        json::keys(body(&self.text), "projects").into_iter().map(PathBuf::from).collect()
    }
}

/// The text without its byte order mark.
pub(crate) fn body(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// The text with another body, and the same byte order mark.
pub(crate) fn with_body(text: &str, body: String) -> String {
    if text.starts_with(MARK) { format!("{MARK}{body}") } else { body }
}

pub(crate) fn locate_entries(text: &str, form: FileFormat) -> Result<Vec<Located>, SyntaxError> {
    let located = match form.syntax {
        Syntax::Json => json::entries(body(text), form.roots),
        Syntax::Toml => tables::entries(body(text), form.roots),
    }?;
    if located.len() > MOST_SERVERS {
        return Err(SyntaxError {
            at: 0,
            message: format!("it has more than {MOST_SERVERS} servers"),
        });
    }
    Ok(located)
}

/// The line and column of a byte, both from 1.
pub(crate) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line, column)
}
