//! `sluice backup` and `sluice restore`.

use std::path::PathBuf;

use clap::Args;
use sluice_config::{Environment, Overrides};

use crate::{
    backup, clock,
    output::{Done, print, visible},
};

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file to write
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreBackup {
    /// The backup to read
    file: PathBuf,
}

impl Backup {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let verified = backup::write(&directory(data)?, &self.file)?;
        let (file, records) = (visible(&self.file.to_string_lossy()), verified.records);
        print(&format!("wrote `{file}`, with {records} records and the keys; keep it secret\n"))?;
        Ok(Done::Well)
    }
}

impl RestoreBackup {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let restored = backup::restore(&directory(data)?, &self.file, clock::now())?;
        let records = restored.verified.records;
        let former = restored.replaced.map(|replaced| {
            let folder = visible(&replaced.to_string_lossy());
            format!("the former contents are in `{folder}`\n")
        });
        let text = format!("restored {records} records\n{}", former.unwrap_or_default());
        print(&text)?;
        Ok(Done::Well)
    }
}

fn directory(data: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let overrides = Overrides { data, ..Overrides::default() };
    Ok(sluice_config::data_directory(&overrides, &Environment::of_process())?)
}
