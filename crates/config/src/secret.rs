//! Secrets in the file: `env:NAME`, `file:PATH`, or the text itself.

use std::path::Path;

use sluice_store::Secret;
use toml::{Spanned, de::DeValue};

use super::loader::Loader;
use crate::Environment;

/// The prefix of a token in a header.
const BEARER: &str = "Bearer ";
/// The largest file with a secret, in bytes.
const LONGEST_SECRET: u64 = 64 << 10;

/// Resolves the secret at `path`. Messages contain neither the secret nor the text that names it.
pub(super) fn resolve(
    path: &str,
    value: &Spanned<DeValue<'_>>,
    loader: &mut Loader<'_>,
) -> Option<Spanned<Secret>> {
    let written = value.get_ref().as_str();
    let found = match written.map(|text| (text, text.split_once(':'))) {
        Some((_, Some(("env", name)))) => of_variable(name, loader).map(Secret::from_reference),
        Some((_, Some(("file", name)))) => of_file(name, loader).map(Secret::from_reference),
        Some((text, _)) => {
            loader.findings.hide(value.span());
            Ok(Secret::new(text.to_owned()))
        }
        None => {
            loader.findings.hide(value.span());
            Err(format!("`{path}` must be a text: `env:NAME`, `file:PATH`, or the secret itself"))
        }
    };
    match found {
        Ok(secret) if secret.expose().is_empty() => {
            loader.findings.add(value.span(), format!("the secret for `{path}` is empty"));
        }
        Ok(secret) => return Some(Spanned::new(value.span(), secret)),
        Err(message) => loader.findings.add(value.span(), message),
    }
    None
}

/// Reads a secret given on the command line, in the same three ways; `Bearer ` may precede the
/// reference.
pub fn read_argument(text: &str, environment: &Environment) -> Result<Secret, String> {
    let mut loader = Loader::new(Path::new(""), environment);
    let scheme = if text.starts_with(BEARER) { BEARER } else { "" };
    let found = match text.strip_prefix(scheme).unwrap_or(text).split_once(':') {
        Some(("env", name)) => of_variable(name, &loader),
        Some(("file", name)) => of_file(name, &mut loader),
        _ => return Ok(Secret::new(text.to_owned())),
    };
    found.map(|secret| Secret::from_reference(format!("{scheme}{secret}")))
}

fn of_variable(name: &str, loader: &Loader<'_>) -> Result<String, String> {
    let value = loader.environment.secret(name).ok_or_else(|| {
        format!(
            "environment variable `{name}` is not set: `export {name}=…` before starting `sluice`"
        )
    })?;
    value
        .to_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("environment variable `{name}` is not valid UTF-8"))
}

fn of_file(name: &str, loader: &mut Loader<'_>) -> Result<String, String> {
    let path = loader.path(name);
    let shown = path.display().to_string();
    let text = loader
        .read(&path, LONGEST_SECRET + 1)
        .map_err(|error| format!("cannot read secret file `{shown}`: {error}"))?;
    if u64::try_from(text.len()).is_ok_and(|length| length > LONGEST_SECRET) {
        return Err(format!("secret file `{shown}` is longer than 64 KiB"));
    }
    let text =
        String::from_utf8(text).map_err(|_| format!("secret file `{shown}` is not valid UTF-8"))?;
    // Editors and `echo` end a file with a line break that is not part of the secret.
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
