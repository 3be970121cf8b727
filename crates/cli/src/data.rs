//! The data directory: private to its owner, with the gateway's secrets and the state of a
//! running gateway.
//!
//! Everything in it is checked before it is trusted: a directory or file that other users
//! could read or write is refused, and the error says what to do.

mod claim;
pub(crate) mod running;
mod secret;

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use sluice_config::{
    Environment,
    private::{self, AccessError},
    server_file, servers_folder,
};
use sluice_store::{Key, Name, Secret};

pub(crate) use running::{Running, admin_url, agents_url, client_url};

/// A data directory that exists and is private.
#[derive(Debug, Clone)]
pub(crate) struct DataDirectory {
    path: PathBuf,
}

/// Keeps other gateways from using the directory until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataError {
    #[error("cannot make data directory `{}`\nhint: make it yourself, or choose another with `--data`", .0.display())]
    Create(PathBuf, #[source] io::Error),
    #[error("`{}` is not a directory\nhint: choose another with `--data`", .0.display())]
    NoDirectory(PathBuf),
    #[error("`{}` is not a regular file", .0.display())]
    NoFile(PathBuf),
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("cannot write `{}`\nhint: make its folder writable, or choose another data directory with `--data`", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("`{}` does not hold what belongs there\nhint: restore it, or remove it and a new one is made at the next start", .0.display())]
    Content(PathBuf),
    #[error("`{}` is damaged: it must hold 64 hexadecimal digits\nhint: {}", path.display(), key_hint(*is_needed))]
    DamagedKey { path: PathBuf, is_needed: bool },
    #[error("`{}` is missing, the key of `{}`\nhint: {}", path.display(), other.display(), key_hint(true))]
    NoKey { path: PathBuf, other: PathBuf },
    #[error("`SLUICE_ADMIN_TOKEN` must be visible ASCII characters without spaces")]
    AdminToken,
    #[error(
        "{token} is shorter than {least} characters, so that it could be guessed\nhint: `openssl rand -hex 32` makes a good one; without any, one is made in `admin-token` of the data directory"
    )]
    ShortToken { token: String, least: usize },
    #[error("the contents of data directory `{}` were removed or renamed while another process of yours uses them; a new database beside it would have limits of its own\nhint: put them back, or stop that process: `sluice up` or `sluice wrap`", .0.display())]
    Claimed(PathBuf),
    #[error("the system gives no random numbers")]
    Random,
    #[error("{} uses data directory `{}`\nhint: stop it, or choose another directory with `--data`", user(*pid), path.display())]
    Locked { path: PathBuf, pid: Option<u32> },
}

/// How to get a working key again.
fn key_hint(is_needed: bool) -> &'static str {
    if is_needed {
        "put that file back as it was, or a backup of everything with `sluice restore FILE`; another key cannot read the database\nhint: to start anew without servers, grants and log, move the whole data directory away"
    } else {
        "remove it, and a new one is made at the next start"
    }
}

fn user(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("another gateway (process {pid})"),
        None => "another gateway".into(),
    }
}

impl DataDirectory {
    /// Opens the directory; creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<DataDirectory, DataError> {
        make_private(path)?;
        Ok(DataDirectory { path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the directory for one gateway.
    pub(crate) fn lock(&self) -> Result<Lock, DataError> {
        let path = self.path.join("lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|error| DataError::Write(path.clone(), error))?;
        let metadata = file.metadata().map_err(|error| DataError::Read(path.clone(), error))?;
        // Any user who can open the file could prevent the gateway from starting.
        private::check_metadata(&path, &metadata, 0o600)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let pid = running::read(&self.path).ok().flatten().map(|run| run.pid);
                Err(DataError::Locked { path: self.path.clone(), pid })
            }
            Err(TryLockError::Error(error)) => Err(DataError::Write(path, error)),
        }
    }

    /// The token for the admin listener: from the environment, else from the directory. It is
    /// created if there is none.
    pub(crate) fn admin_token(&self, environment: &Environment) -> Result<Secret, DataError> {
        match secret::of_environment(environment)? {
            Some(token) => Ok(token),
            None => secret::read_or_create_admin_token(&self.path.join("admin-token")),
        }
    }

    /// The folder of servers that commands on this machine add; created if it does not exist.
    pub(crate) fn servers(&self) -> Result<PathBuf, DataError> {
        let folder = servers_folder(&self.path);
        make_private(&folder)?;
        Ok(folder)
    }

    /// Writes a server's file to that folder.
    pub(crate) fn put_server(&self, name: &Name, text: &str) -> Result<(), DataError> {
        self.servers()?;
        secret::write(&server_file(&self.path, name), text.trim_end())
    }

    /// The folder for state about clients' own files; created if it does not exist.
    pub(crate) fn stack(&self) -> Result<PathBuf, DataError> {
        let folder = self.path.join("stack");
        make_private(&folder)?;
        Ok(folder)
    }

    /// A private subfolder of the `stack` folder; created if it does not exist.
    pub(crate) fn stack_folder(&self, name: &str) -> Result<PathBuf, DataError> {
        let folder = self.stack()?.join(name);
        make_private(&folder)?;
        Ok(folder)
    }

    /// The token of the demo's grant; created if there is none.
    pub(crate) fn demo_token(&self) -> Result<Secret, DataError> {
        secret::read_or_create_token(&self.path.join("demo-token"), "sg_")
    }

    /// The key from which all others are derived; created if there is none, and nothing that
    /// belongs to one.
    pub(crate) fn master_key(&self) -> Result<Key, DataError> {
        let (folder, path) = (self.path.join("keys"), master_key_file(&self.path));
        let may_create = || match find_belongings(&self.path) {
            Some(other) => Err(DataError::NoKey { path: path.clone(), other }),
            None => Ok(()),
        };
        let allowed = may_create();
        // Looked for afterwards, because another process may just create it, and then the others.
        if !folder.exists() {
            allowed?;
        }
        make_private(&folder)?;
        let key = secret::read_or_create_key(&path, may_create);
        key.map_err(|error| explain_key(&self.path, error))
    }
}

/// A damaged key is not replaced like other files that are damaged.
fn explain_key(data: &Path, error: DataError) -> DataError {
    match error {
        DataError::Content(path) => {
            DataError::DamagedKey { path, is_needed: find_belongings(data).is_some() }
        }
        other => other,
    }
}

fn master_key_file(data: &Path) -> PathBuf {
    data.join("keys").join("master")
}

/// What only the master key can read.
fn find_belongings(data: &Path) -> Option<PathBuf> {
    let both = ["sluice.db", "keys/head"].map(|name| data.join(name));
    both.into_iter().find(|path| path.exists())
}

/// The key of a data directory, if there is one, for reading what is in it.
pub(crate) fn read_master_key(data: &Path) -> Result<Option<Key>, DataError> {
    secret::read_key(&master_key_file(data)).map_err(|error| explain_key(data, error))
}

/// Writes a private file: a crash leaves the old one or the new one.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), DataError> {
    secret::write(path, text.trim_end())
}

/// The path of the catalogue.
pub(crate) fn catalog_file(data: &Path) -> PathBuf {
    data.join("catalog.db")
}

/// Creates a directory that only its owner can enter, or checks an existing one.
fn make_private(path: &Path) -> Result<(), DataError> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_dir() => Err(DataError::NoDirectory(path.to_owned())),
        Ok(metadata) => Ok(private::check_metadata(path, &metadata, 0o700)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Parent directories get the default mode.
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)
                    .map_err(|error| DataError::Create(path.to_owned(), error))?;
            }
            match DirBuilder::new().mode(0o700).create(path) {
                // Another process has just created it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => make_private(path),
                made => made.map_err(|error| DataError::Create(path.to_owned(), error)),
            }
        }
        Err(error) => Err(DataError::Read(path.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests;
