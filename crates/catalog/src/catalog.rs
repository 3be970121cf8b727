//! Opens a catalogue, on disk or in memory.

use std::{
    fmt, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{
    layout::{self, Kind},
    shipped,
};

/// The known servers and tools: those that ship with the program, and those that the user has
/// imported.
pub struct Catalog {
    pub(crate) connection: Connection,
    /// Why it is only in memory, if it is.
    unkept: Option<String>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("unkept", &self.unkept).finish_non_exhaustive()
    }
}

/// Why a catalogue cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{}` is not a catalogue: it belongs to another program\nhint: move it away", .0.display())]
    Foreign(PathBuf),
    #[error("`{}` was written by a newer version of this program\nhint: use that version, or another data directory", .0.display())]
    Newer(PathBuf),
    #[error("`{}` cannot be written\nhint: make its folder writable, or choose another data directory with `--data`", .0.display())]
    Unwritable(PathBuf, #[source] io::Error),
    #[error("`{}` is kept locked by another program\nhint: wait for it to end, or try again", .0.display())]
    Locked(PathBuf),
    #[error("`{}` is damaged\nhint: move it away and import again what was in it", .0.display())]
    Damaged(PathBuf, #[source] rusqlite::Error),
    #[error("the shipped catalogue cannot be read")]
    Shipped(#[source] shipped::ShippedError),
}

/// The catalogue could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the catalogue failed")]
pub struct CatalogError(#[from] rusqlite::Error);

impl Catalog {
    /// Opens the catalogue in this file, and creates it if it does not exist. If the file is not
    /// writable, it is opened read-only; if it cannot be created, the catalogue is in memory and
    /// has the shipped index only.
    pub fn open(path: &Path) -> Result<Catalog, OpenError> {
        match Catalog::open_to_write(path) {
            Err(OpenError::Unwritable(_, why)) => {
                let why = why.to_string();
                match Catalog::open_as_it_is(path) {
                    Some(connection) => Ok(Catalog { connection, unkept: Some(why) }),
                    None => Catalog::load_shipped(Some(why)),
                }
            }
            opened => opened,
        }
    }

    /// Opens the catalogue for writing, or returns why it cannot be written.
    pub fn open_to_write(path: &Path) -> Result<Catalog, OpenError> {
        let mut connection = connect(path)?;
        let failed = |error| open_error(path, error);
        layout::settle(&connection).map_err(failed)?;
        match layout::prepare(&mut connection).map_err(failed)? {
            Kind::Foreign => return Err(OpenError::Foreign(path.to_owned())),
            Kind::Newer => return Err(OpenError::Newer(path.to_owned())),
            Kind::Ours | Kind::Empty => {}
        }
        layout::settle_writer(&connection).map_err(failed)?;
        shipped::put(&mut connection).map_err(|error| match error {
            shipped::ShippedError::Store(error) => open_error(path, error),
            other @ shipped::ShippedError::Content => OpenError::Shipped(other),
        })?;
        Ok(Catalog { connection, unkept: None })
    }

    /// A catalogue in memory with the shipped index.
    pub fn in_memory() -> Result<Catalog, OpenError> {
        Catalog::load_shipped(None)
    }

    fn load_shipped(unkept: Option<String>) -> Result<Catalog, OpenError> {
        let mut catalog =
            Catalog::empty().map_err(|error| open_error(Path::new(":memory:"), error))?;
        shipped::put(&mut catalog.connection).map_err(OpenError::Shipped)?;
        Ok(Catalog { unkept, ..catalog })
    }

    /// An empty catalogue in memory.
    fn empty() -> rusqlite::Result<Catalog> {
        let mut connection = Connection::open_in_memory()?;
        layout::settle(&connection)?;
        layout::prepare(&mut connection)?;
        Ok(Catalog { connection, unkept: None })
    }

    /// Opens a catalogue file that is not writable. It can be treated as immutable: a user who
    /// could change it could also write it.
    fn open_as_it_is(path: &Path) -> Option<Connection> {
        let text = path.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let address = format!("file:{text}?immutable=1");
        let connection = Connection::open_with_flags(address, flags).ok()?;
        layout::settle(&connection).ok()?;
        let is_ours = layout::kind(&connection).is_ok_and(|kind| kind == Kind::Ours);
        is_ours.then_some(connection)
    }

    /// Why nothing can be imported, if that is so.
    pub fn unkept(&self) -> Option<&str> {
        self.unkept.as_deref()
    }
}

/// Connects to a file, and creates it with access for its owner only if it does not exist.
fn connect(path: &Path) -> Result<Connection, OpenError> {
    let unwritable = |error| OpenError::Unwritable(path.to_owned(), error);
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(unwritable)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|error| open_error(path, error))
}

fn open_error(path: &Path, error: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked(path),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            OpenError::Unwritable(path, io::Error::other(error.to_string()))
        }
        Some(ErrorCode::NotADatabase) => OpenError::Foreign(path),
        _ => OpenError::Damaged(path, error),
    }
}
