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

/// Bytes of a line, of an entry of a list, or of a whole file that is one document.
pub(crate) const LONGEST_TEXT: usize = 32 << 20;

/// The progress of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    pub servers: u64,
    /// Servers that were not there before.
    pub new: u64,
    pub tools: u64,
    /// Things that could not be understood and were passed over.
    pub problems: u64,
    /// Entries of older versions in a registry, which are passed over.
    pub older: u64,
    /// Bytes of the file that have been read, and how many it has.
    pub read: u64,
    pub bytes: u64,
}

/// What happens during an import.
#[derive(Debug)]
pub enum Event<'e> {
    /// Something could not be understood.
    Problem(&'e Problem),
    /// A server is in the catalogue now.
    Changed(&'e Change),
    /// How far it is.
    Progress(&'e Imported),
}

/// Something that could not be understood: where, and why.
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

/// Why an import ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl Catalog {
    /// Imports a file. Entries that cannot be parsed are reported and skipped; what
    /// was there stays, unless a server of the same name comes.
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

    /// The same for what can be read only once, which is called `label`.
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
