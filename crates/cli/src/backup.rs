//! A copy of a data directory in one file, and its way back.
//!
//! The file is a tar archive: the database and its head as of one moment, the keys, tokens and
//! server files. The catalogue is left out, and what belongs to a running process.

mod archive;

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use sluice_config::private;
use sluice_policy::Timestamp;
use sluice_store::{
    Clock, Durability, Key, Outcome, Record, Store, StoreConfig, StoreError, Verified, new_id,
};

use crate::data::{DataDirectory, read_master_key};

/// The files of the store, in a copy and in an archive.
const DATABASE: &str = "sluice.db";
const HEAD: &str = "keys/head";
/// Files that are copied unchanged, if they exist.
const FILES: [&str; 3] = ["keys/master", "admin-token", "demo-token"];
/// Folders whose files are copied as they are.
const FOLDERS: [&str; 1] = ["servers.d"];

/// A folder that is removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make(path: PathBuf) -> io::Result<Scratch> {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a backup of a data directory, which processes may use meanwhile.
pub(crate) fn write(directory: &Path, file: &Path) -> anyhow::Result<Verified> {
    private::check(directory)?;
    if file.exists() {
        bail!("`{}` exists already\nhint: choose another name, or remove it", file.display());
    }
    let key = read_master_key(directory)?.ok_or_else(|| no_key(directory))?;
    let store = Store::open_read_only(directory, Some(&key))?;
    let new = file.with_added_extension("new");
    let scratch = Scratch::make(file.with_added_extension("copy")).with_context(|| {
        let file = file.display();
        format!("cannot write beside `{file}`\nhint: make that folder, or make it writable")
    })?;
    let verified = block_on(store.copy_to(&scratch.0))??;
    let written = || -> io::Result<()> {
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let mut archive = archive::Writer::new(options);
        for name in [DATABASE, HEAD] {
            archive.add(name, &scratch.0.join(name))?;
        }
        for name in list_files(directory)? {
            archive.add(&name, &directory.join(&name))?;
        }
        archive.finish()?;
        fs::rename(&new, file)
    };
    match written() {
        Ok(()) => Ok(verified),
        Err(error) => {
            let _ = fs::remove_file(&new);
            Err(error).with_context(|| format!("cannot write `{}`", file.display()))
        }
    }
}

fn no_key(directory: &Path) -> anyhow::Error {
    anyhow!(
        "`{}` has no key `keys/master`, without which a database cannot be read\nhint: name another data directory with `--data`, or put the key back",
        directory.display()
    )
}

/// The files of a data directory that are copied as they are.
fn list_files(directory: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = FILES.iter().map(|name| (*name).to_owned()).collect();
    for folder in FOLDERS {
        let entries = match fs::read_dir(directory.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.push(format!("{folder}/{name}"));
        }
    }
    names.retain(|name| directory.join(name).is_file());
    names.sort();
    Ok(names)
}

/// What a restore has done.
pub(crate) struct Restored {
    pub(crate) verified: Verified,
    /// Where the former contents are, if there were any.
    pub(crate) replaced: Option<PathBuf>,
}

/// Puts a backup in the place of what a data directory holds. Nothing may run on it.
pub(crate) fn restore(directory: &Path, file: &Path, now: Timestamp) -> anyhow::Result<Restored> {
    let data = DataDirectory::open(directory)?;
    let lock = data.lock()?;
    let unpacked = Scratch::make(directory.join("restore.new"))?;
    archive::unpack(file, &unpacked.0, is_known)
        .with_context(|| format!("`{}` is not a backup that can be read", file.display()))?;
    let key = read_master_key(&unpacked.0)?.ok_or_else(|| no_key(file))?;
    let verified = {
        let store = Store::open_read_only(&unpacked.0, Some(&key))?;
        block_on(store.verify())??
    };
    if let Some(fault) = verified.faults.first() {
        bail!("the backup is not whole: {fault}\nhint: nothing was replaced; use another backup");
    }
    let Some(database) = Store::lock(directory)? else {
        bail!(
            "a process uses the database in `{}`\nhint: stop every gateway and wrap on it",
            directory.display()
        );
    };
    let replaced = directory.join(format!("replaced-{}", now.as_millis()));
    let had_any = replace(directory, &unpacked.0, &replaced).with_context(|| {
        format!("the former contents are in `{}`: put them back", replaced.display())
    })?;
    drop(database);
    let replaced = had_any.then_some(replaced);
    record(directory, &key, now, replaced.as_deref())?;
    drop(lock);
    Ok(Restored { verified, replaced })
}

/// Whether an archive may hold a file of this name.
fn is_known(name: &str) -> bool {
    let in_folder = FOLDERS.iter().any(|folder| {
        let rest = name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/') && !rest.starts_with('.'))
    });
    in_folder || name == DATABASE || name == HEAD || FILES.contains(&name)
}

/// Moves the former files away and the new ones in. The head comes before the database, and
/// the database last: where this is cut short, nothing starts on what is there.
fn replace(directory: &Path, unpacked: &Path, replaced: &Path) -> io::Result<bool> {
    DirBuilder::new().mode(0o700).create(replaced)?;
    DirBuilder::new().mode(0o700).create(replaced.join("keys"))?;
    let mut had_any = false;
    for name in ["sluice.db-wal", DATABASE, "sluice.db-shm"] {
        had_any |= is_there(fs::rename(directory.join(name), replaced.join(name)))?;
    }
    // The keys are never missing in between.
    for name in [HEAD, "keys/master"] {
        had_any |= is_there(fs::copy(directory.join(name), replaced.join(name)).map(|_| ()))?;
    }
    for name in ["admin-token", "demo-token", "servers.d"] {
        had_any |= is_there(fs::rename(directory.join(name), replaced.join(name)))?;
    }
    for folder in ["keys", "servers.d"] {
        match DirBuilder::new().mode(0o700).create(directory.join(folder)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    fs::rename(unpacked.join(HEAD), directory.join(HEAD))?;
    for name in list_files(unpacked)? {
        fs::rename(unpacked.join(&name), directory.join(&name))?;
    }
    fs::rename(unpacked.join(DATABASE), directory.join(DATABASE))?;
    File::open(directory)?.sync_all()?;
    if !had_any {
        fs::remove_dir_all(replaced)?;
    }
    Ok(had_any)
}

fn is_there(moved: io::Result<()>) -> io::Result<bool> {
    match moved {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        moved => moved.map(|()| true),
    }
}

/// Records the restore in the log that was restored.
fn record(
    directory: &Path,
    key: &Key,
    now: Timestamp,
    replaced: Option<&Path>,
) -> anyhow::Result<()> {
    let store = Store::open(StoreConfig {
        directory: directory.to_owned(),
        durability: Durability::Power,
        key: key.clone(),
        clock: Clock::System,
        retention: None,
        accept_loss: false,
    })?;
    let name = replaced.and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let message = match replaced {
        Some(_) => format!("restored from a backup; the former contents are in `{name}`"),
        None => "restored from a backup".into(),
    };
    let record = Record {
        message: Some(message),
        actor: Some(sluice_store::Actor::gateway()),
        outcome: Some(Outcome::Allow),
        ..Record::new(new_id(now), now, sluice_store::Kind::Admin)
    };
    block_on(async {
        store.append(record).await?;
        store.close().await
    })??;
    Ok(())
}

fn block_on<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> io::Result<Result<T, StoreError>> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work))
}
