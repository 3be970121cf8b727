//! Scans servers one after the other, and stores the results.

use std::{collections::HashSet, path::PathBuf};

use anyhow::Context as _;
use sluice_stack::{Entry, Tool};

use super::{
    listing::{self, ListError},
    machine::{Machine, now},
};
use crate::output::{BAD, FAINT, HELD, remark, shorten, visible, wide};

/// The width of a line, without the numbers at its start.
const WIDTH: usize = 68;

/// A server whose scan failed.
pub(super) struct Failed {
    pub(super) identity: String,
    pub(super) error: ListError,
}

/// Each server once, from the client in which it was found first.
pub(super) fn distinct<'e>(entries: impl Iterator<Item = &'e Entry>) -> Vec<&'e Entry> {
    let mut seen = HashSet::new();
    entries.filter(|entry| seen.insert(entry.identity())).collect()
}

/// Scans these servers and stores the results; returns those that failed.
pub(super) fn all(machine: &Machine, entries: &[&Entry]) -> anyhow::Result<Vec<Failed>> {
    let mut failed = Vec::new();
    let width = entries.iter().map(|entry| wide(&visible(&entry.name))).max().unwrap_or_default();
    for (index, entry) in entries.iter().enumerate() {
        let name = visible(&entry.name);
        let gap = " ".repeat(width.saturating_sub(wide(&name)) + 2);
        remark(&format!("{FAINT}{}/{}{FAINT:#} {name}{gap}", index + 1, entries.len()))?;
        match one(machine, entry)? {
            Ok(tools) => {
                let plural = if tools.len() == 1 { "" } else { "s" };
                remark(&format!("{} tool{plural}\n", tools.len()))?;
                machine.remember(|memory| {
                    memory.learn(entry, tools, &now());
                    Ok(())
                })?;
            }
            Err(error) => {
                let style = if matches!(error, ListError::Failed(_)) { BAD } else { HELD };
                let text = error.to_string();
                let first = visible(text.lines().next().unwrap_or_default());
                let first = shorten(&first, WIDTH.saturating_sub(width));
                remark(&format!("{style}{first}{style:#}\n"))?;
                failed.push(Failed { identity: entry.identity(), error });
            }
        }
    }
    Ok(failed)
}

/// Scans one server, in its working directory.
fn one(machine: &Machine, entry: &Entry) -> anyhow::Result<Result<Vec<Tool>, ListError>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let _back = Folder::enter(entry);
    let asked = listing::tools(entry, &machine.environment, &machine.places.home);
    let tools = runtime.block_on(asked);
    // The supervisor stops a command that does not exit by itself.
    runtime.shutdown_background();
    Ok(tools)
}

/// Returns to the previous working directory on drop.
struct Folder(Option<PathBuf>);

impl Folder {
    fn enter(entry: &Entry) -> Folder {
        let before = std::env::current_dir().ok();
        let entered =
            entry.folder.as_deref().is_some_and(|folder| std::env::set_current_dir(folder).is_ok());
        Folder(before.filter(|_| entered))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // If the directory is gone, nothing here depends on it.
            let _ = std::env::set_current_dir(before);
        }
    }
}
