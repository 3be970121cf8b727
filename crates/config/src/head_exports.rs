//! `[audit.heads]`: where signed heads of the audit log are exported to.

use std::{path::PathBuf, time::Duration};

use sluice_store::Secret;
use toml::Spanned;

use super::{loader::Loader, secret, section::Section, server, value};
use crate::declare;

const KEYS: &[&str] = &["file", "url", "headers", "every"];

/// Signed heads are exported to a file, a URL, both, or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadExports {
    /// A file that they are appended to.
    pub file: Option<PathBuf>,
    /// A URL that they are posted to. It may hold a secret.
    pub url: Option<Secret>,
    /// Headers of these posts.
    pub headers: Vec<(String, Secret)>,
    /// The time between two of them.
    pub every: Duration,
}

impl Default for HeadExports {
    fn default() -> HeadExports {
        let every = Duration::from_mins(5);
        HeadExports { file: None, url: None, headers: Vec::new(), every }
    }
}

impl HeadExports {
    pub(super) fn read(section: &Section<'_>, loader: &mut Loader<'_>) -> HeadExports {
        section.check_keys(KEYS, &mut loader.findings);
        let mut exports = HeadExports::default();
        let file = section.read("file", value::text, &mut loader.findings);
        exports.file = file.map(|file| loader.path(file.get_ref()));
        exports.url = url(section, loader);
        exports.headers = server::headers(section, loader);
        if let Some(every) = section.read("every", value::duration, &mut loader.findings) {
            exports.every = every.into_inner();
        }
        let is_empty = section.entries().next().is_none();
        if !is_empty && !section.has("file") && !section.has("url") {
            let message = "nothing says where heads are exported to";
            loader.findings.add_with_hint(
                section.span.clone(),
                message,
                "give a `file` or a `url`",
            );
        }
        exports
    }
}

fn url(section: &Section<'_>, loader: &mut Loader<'_>) -> Option<Secret> {
    let (_, value) = section.entry("url")?;
    let path = section.path_to("url");
    // An `https:` URL is no reference, but looks like one.
    let url = secret::resolve(&path, value, loader).map(Spanned::into_inner)?;
    match declare::server_url(url.expose()) {
        Ok(_) => Some(url),
        Err(message) => {
            loader.findings.add(value.span(), format!("`{path}` {message}"));
            None
        }
    }
}
