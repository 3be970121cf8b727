//! Small files with secrets: private, and written atomically.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use data_encoding::HEXLOWER;
use sluice_config::{Environment, private};
use sluice_store::Secret;

use super::DataError;

/// The largest such file, in bytes.
const LONGEST: u64 = 4 << 10;

/// The admin token from the environment, which takes precedence over any other.
pub(super) fn of_environment(environment: &Environment) -> Result<Option<Secret>, DataError> {
    let Some(token) = environment.setting("SLUICE_ADMIN_TOKEN") else { return Ok(None) };
    let token = token.to_str().filter(|token| is_token(token)).ok_or(DataError::AdminToken)?;
    Ok(Some(Secret::new(token.to_owned())))
}

/// Reads the token in a file.
pub(super) fn token(path: &Path) -> Result<Option<Secret>, DataError> {
    let Some(text) = read(path)? else { return Ok(None) };
    if is_token(&text) {
        Ok(Some(Secret::new(text)))
    } else {
        Err(DataError::Content(path.to_owned()))
    }
}

/// Reads the token in a file; creates it if there is none.
pub(super) fn kept_token(path: &Path, prefix: &str) -> Result<Secret, DataError> {
    if let Some(token) = token(path)? {
        return Ok(token);
    }
    let token = format!("{prefix}{}", HEXLOWER.encode(&random()?));
    write(path, &token)?;
    Ok(Secret::new(token))
}

/// Reads the key in a file; creates it if there is none.
pub(super) fn kept_key(path: &Path) -> Result<[u8; 32], DataError> {
    let text = match read(path)? {
        Some(text) => text,
        None => made_once(path)?,
    };
    let bytes = HEXLOWER.decode(text.as_bytes()).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| DataError::Content(path.to_owned()))
}

/// Creates a key file, or reads the one that another process has just created: several may start at
/// once, and all must use the same key.
fn made_once(path: &Path) -> Result<String, DataError> {
    let failed = |error| DataError::Write(path.to_owned(), error);
    let folder = File::open(path.parent().unwrap_or(path)).map_err(failed)?;
    folder.lock().map_err(failed)?;
    if let Some(text) = read(path)? {
        return Ok(text);
    }
    let text = HEXLOWER.encode(&random()?);
    write(path, &text)?;
    Ok(text)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn random() -> Result<[u8; 32], DataError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| DataError::Random)?;
    Ok(bytes)
}

/// Reads the one line of a private file; `None` if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, DataError> {
    let failed = |error| DataError::Read(path.to_owned(), error);
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_file() {
        return Err(DataError::NoFile(path.to_owned()));
    }
    private::check_metadata(path, &metadata, 0o600)?;
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text)).map_err(
        |error| match error.kind() {
            io::ErrorKind::InvalidData => DataError::Content(path.to_owned()),
            _ => failed(error),
        },
    )?;
    Ok(Some(text.trim_end_matches('\n').to_owned()))
}

/// Writes a private file: a crash leaves the old one or the new one.
pub(super) fn write(path: &Path, line: &str) -> Result<(), DataError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = || {
        // A file left by an earlier crash may have any mode.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        writeln!(file, "{line}")?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    written().map_err(|error| DataError::Write(path.to_owned(), error))
}
