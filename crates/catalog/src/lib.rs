//! The index of known servers and tools, and its search.
//!
//! A catalogue is one SQLite file with full-text tables (`layout`). What ships
//! with the program (`shipped`) is put into it at first use; what the user
//! imports (`import`) takes the place of what is shipped under the same name.
//! What a tool is recommended to be allowed is not known here.
//!
//! It is large because definitions come in three forms (`import`), and because what
//! is kept of them has a form of its own, on disk and as it ships.

mod advice;
mod bits;
mod catalog;
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
