//! Small files with secrets: private, and written atomically.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use data_encoding::HEXLOWER;
use sluice_config::{Environment, private};
use sluice_store::{Key, Secret};
use zeroize::Zeroizing;

use super::DataError;

/// The largest such file, in bytes.
const LONGEST: usize = 4 << 10;
/// A shorter admin token could be guessed.
pub(super) const SHORTEST_ADMIN_TOKEN: usize = 32;

/// The admin token from the environment, which takes precedence over any other.
pub(super) fn of_environment(environment: &Environment) -> Result<Option<Secret>, DataError> {
    let Some(token) = environment.setting("SLUICE_ADMIN_TOKEN") else { return Ok(None) };
    let token = token.to_str().filter(|token| is_token(token)).ok_or(DataError::AdminToken)?;
    if token.len() < SHORTEST_ADMIN_TOKEN {
        return Err(too_short("`SLUICE_ADMIN_TOKEN`".into()));
    }
    Ok(Some(Secret::new(token.to_owned())))
}

/// The admin token in a file; created if there is none.
pub(super) fn read_or_create_admin_token(path: &Path) -> Result<Secret, DataError> {
    let token = read_or_create_token(path, "sga_")?;
    if token.expose().len() < SHORTEST_ADMIN_TOKEN {
        return Err(too_short(format!("the token in `{}`", path.display())));
    }
    Ok(token)
}

fn too_short(token: String) -> DataError {
    DataError::ShortToken { token, least: SHORTEST_ADMIN_TOKEN }
}

/// Reads the token in a file.
pub(super) fn token(path: &Path) -> Result<Option<Secret>, DataError> {
    let Some(mut text) = read(path)? else { return Ok(None) };
    if is_token(&text) {
        Ok(Some(Secret::new(std::mem::take(&mut text))))
    } else {
        Err(DataError::Content(path.to_owned()))
    }
}

/// Reads the token in a file; creates it if there is none.
pub(super) fn read_or_create_token(path: &Path, prefix: &str) -> Result<Secret, DataError> {
    if let Some(token) = token(path)? {
        return Ok(token);
    }
    let token = format!("{prefix}{}", *Zeroizing::new(HEXLOWER.encode(&*random()?)));
    let token = Secret::new(token);
    write(path, token.expose())?;
    Ok(token)
}

/// Reads the key in a file; creates it if there is none, and if that is allowed.
pub(super) fn read_or_create_key(
    path: &Path,
    may_create: impl FnOnce() -> Result<(), DataError>,
) -> Result<Key, DataError> {
    match read_key(path)? {
        Some(key) => Ok(key),
        None => parse_key(path, &create_key(path, may_create)?),
    }
}

/// Reads the key in a file, if there is one.
pub(super) fn read_key(path: &Path) -> Result<Option<Key>, DataError> {
    read(path)?.map(|text| parse_key(path, &text)).transpose()
}

fn parse_key(path: &Path, text: &str) -> Result<Key, DataError> {
    let bytes = HEXLOWER.decode(text.as_bytes()).ok().map(Zeroizing::new);
    let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(&**bytes).ok());
    bytes.map(Key::from_bytes).ok_or_else(|| DataError::Content(path.to_owned()))
}

/// Creates a key file, or reads the one that another process has just created: several may start at
/// once, and all must use the same key.
fn create_key(
    path: &Path,
    may_create: impl FnOnce() -> Result<(), DataError>,
) -> Result<Zeroizing<String>, DataError> {
    let failed = |error| DataError::Write(path.to_owned(), error);
    let folder = File::open(path.parent().unwrap_or(path)).map_err(failed)?;
    folder.lock().map_err(failed)?;
    if let Some(text) = read(path)? {
        return Ok(text);
    }
    may_create()?;
    let text = Zeroizing::new(HEXLOWER.encode(&*random()?));
    write(path, &text)?;
    Ok(text)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn random() -> Result<Zeroizing<[u8; 32]>, DataError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(|_| DataError::Random)?;
    Ok(bytes)
}

/// Reads the one line of a private file; `None` if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Zeroizing<String>>, DataError> {
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
    // With room for all of it, it is in one place only.
    let mut text = Zeroizing::new(String::with_capacity(2 * LONGEST));
    File::open(path).and_then(|file| file.take(LONGEST as u64).read_to_string(&mut text)).map_err(
        |error| match error.kind() {
            io::ErrorKind::InvalidData => DataError::Content(path.to_owned()),
            _ => failed(error),
        },
    )?;
    let length = text.trim_end_matches('\n').len();
    text.truncate(length);
    Ok(Some(text))
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
