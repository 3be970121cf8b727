//! `servers.d/NAME.toml` in the data directory: servers that a command on this
//! machine has added, each with the keys of its `[servers.NAME]`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sluice_store::Name;

use super::{
    loader::{self, Loader},
    server::{self, DeclaredServer},
    syntax,
};
use crate::{Source, private};

/// The largest file, in bytes.
const LONGEST: u64 = 1 << 20;

/// Why the folder or one of its files cannot be used.
#[derive(Debug, thiserror::Error)]
enum UseError {
    #[error(transparent)]
    Access(#[from] private::AccessError),
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// The folder of servers that commands on this machine have added.
pub fn servers_folder(data: &Path) -> PathBuf {
    data.join("servers.d")
}

/// The file of one such server.
pub fn server_file(data: &Path, name: &Name) -> PathBuf {
    servers_folder(data).join(format!("{name}.toml"))
}

/// Reads the servers of the folder. Errors in a server are reported for its file.
pub(super) fn read(
    data: &Path,
    declared: &[DeclaredServer],
    loader: &mut Loader<'_>,
) -> Vec<DeclaredServer> {
    let folder = servers_folder(data);
    // Adding or removing a file changes the configuration.
    loader.note(&folder);
    let paths = match paths(&folder) {
        Ok(paths) => paths,
        Err(error) => {
            refuse(&folder, &error.to_string(), loader);
            return Vec::new();
        }
    };
    paths.iter().filter_map(|path| one(&folder, path, declared, loader)).collect()
}

fn paths(folder: &Path) -> Result<Vec<PathBuf>, UseError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    private::check(folder)?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read_private(path: &Path) -> Result<Vec<u8>, UseError> {
    private::check(path)?;
    Ok(loader::read(path, LONGEST)?)
}

fn one(
    folder: &Path,
    path: &Path,
    declared: &[DeclaredServer],
    loader: &mut Loader<'_>,
) -> Option<DeclaredServer> {
    loader.note(path);
    let text = match read_private(path) {
        Ok(text) => text,
        Err(error) => {
            refuse(path, &error.to_string(), loader);
            return None;
        }
    };
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = match Name::new(stem) {
        Ok(name) => name,
        Err(error) => {
            refuse(path, &error.to_string(), loader);
            return None;
        }
    };
    if declared.iter().any(|other| other.name == name) {
        refuse(path, &format!("server `{name}` is in the configuration file too"), loader);
        return None;
    }
    let mut own = Loader::new(folder, loader.environment);
    let read = syntax::with_root(&text, &mut own, |root, own| {
        server::read_section(name.clone(), root, own)
    });
    loader.files.append(&mut own.files);
    let source = Source { name: path.display().to_string(), text };
    for problems in own.findings.into_files(source) {
        loader.findings.add_file(problems);
    }
    // The policy may be a stored one, so its name is checked when the configuration is applied.
    read.map(|read| DeclaredServer { anonymous_policy: None, ..read })
}

/// Reports that a file cannot be used at all.
fn refuse(path: &Path, message: &str, loader: &mut Loader<'_>) {
    let mut own = Loader::new(Path::new(""), loader.environment);
    match message.split_once("\nhint: ") {
        Some((message, hint)) => own.findings.add_with_hint(0..0, message, hint),
        None => own.findings.add(0..0, message),
    }
    let source = Source { name: path.display().to_string(), text: Vec::new() };
    for problems in own.findings.into_files(source) {
        loader.findings.add_file(problems);
    }
}
