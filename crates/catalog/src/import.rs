//! Imports definitions and registry entries from files of any size.
//!
//! `pieces` splits a file, `prepare` parses a piece (`form`) and classifies its
//! tools, on several threads at once (`pipeline`); `replace` writes the results to the
//! catalogue and reports changes.

mod elements;
mod form;
mod pieces;
mod pipeline;
pub(crate) mod prepare;
mod replace;

use std::{
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
};

pub use pieces::At;
pub use replace::{Before, Change};

use crate::catalog::{Catalog, CatalogError};
use pieces::Pieces;

/// The largest line, list entry, or single document, in bytes.
pub(crate) const LONGEST_TEXT: usize = 32 << 20;

/// The progress of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    pub servers: u64,
    /// Servers that were not there before.
    pub new: u64,
    pub tools: u64,
    /// Entries that could not be parsed and were skipped.
    pub problems: u64,
    /// Older versions of entries in a registry, which were skipped.
    pub older: u64,
    /// Bytes read so far, and the size of the file.
    pub read: u64,
    pub bytes: u64,
}

/// What happens during an import.
#[derive(Debug)]
pub enum Event<'e> {
    /// An entry could not be parsed.
    Problem(&'e Problem),
    /// A server was added or updated.
    Changed(&'e Change),
    /// The progress so far.
    Progress(&'e Imported),
}

/// An entry that could not be parsed: its position, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    pub at: At,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { file, at, message } = self;
        match at {
            At::Line(number) => write!(f, "line {number} of `{file}`: {message}"),
            At::Entry(number) => write!(f, "entry {number} of `{file}`: {message}"),
            At::Whole => write!(f, "`{file}`: {message}"),
        }
    }
}

/// Why an import was aborted.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl Catalog {
    /// Imports a file. Entries that cannot be parsed are reported and skipped. Existing servers
    /// stay, unless the file has one of the same name.
    ///
    /// `name` is the name of a server whose definitions do not contain it.
    pub fn import(
        &mut self,
        path: &Path,
        name: Option<&str>,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<Imported, ImportError> {
        let pieces =
            Pieces::open(path).map_err(|error| ImportError::Read(path.to_owned(), error))?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.map_or_else(|| stem.unwrap_or_default(), str::to_owned);
        self.put_pieces(pieces, path, &name, tell)
    }

    /// Imports a stream that can be read only once; messages call it `label`.
    pub fn import_stream(
        &mut self,
        stream: impl Read + Send + 'static,
        label: &Path,
        name: Option<&str>,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<Imported, ImportError> {
        let pieces = Pieces::of_stream(stream)
            .map_err(|error| ImportError::Read(label.to_owned(), error))?;
        self.put_pieces(pieces, label, name.unwrap_or_default(), tell)
    }

    fn put_pieces(
        &mut self,
        pieces: Pieces,
        path: &Path,
        name: &str,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<Imported, ImportError> {
        let writer = replace::Replacer::new(&mut self.connection, path, tell);
        let writer = writer.map_err(CatalogError::from)?;
        pipeline::run(pieces, name, writer).map_err(|error| match error {
            pipeline::Failure::Read(error) => ImportError::Read(path.to_owned(), error),
            pipeline::Failure::Store(error) => ImportError::Catalog(error.into()),
        })
    }
}
