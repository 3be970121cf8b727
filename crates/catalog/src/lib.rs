//! The catalogue of known servers and tools, and its full-text search.
//!
//! A catalogue is one SQLite file with full-text tables (`layout`). The shipped index (`shipped`)
//! is loaded into it at first use; an imported server (`import`) replaces a shipped one of the same
//! name. [`site`] writes it as web pages. Recommended policies are not built here; the caller
//! passes them in for the pages.
//!
//! This crate is large because definitions can be imported in three formats (`import`),
//! because the results have a storage format of their own, on disk and as shipped, and
//! because of the web pages.

mod advice;
mod bits;
mod catalog;
pub mod count;
mod digest;
mod entry;
mod evidence;
mod import;
mod layout;
mod look;
mod near;
mod remove;
mod search;
mod shipped;
pub mod site;
mod slug;
mod words;
mod write;

pub use advice::{abilities, ability, reasons_for_policy};
pub use bits::{Findings, Signals};
pub use catalog::{Catalog, CatalogError, OpenError};
pub use entry::{Counts, Server, Standing, Tool, Traits};
pub use evidence::{Evidence, Evident};
pub use import::{At, Before, Change, Event, ImportError, Imported, Problem};
pub use look::{Stats, Taken};
pub use remove::RemoveError;
pub use search::{Hit, Query, SearchResults};
pub use shipped::{BuildError, build};
pub use slug::{Slugs, slug};
