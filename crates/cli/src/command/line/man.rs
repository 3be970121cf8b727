//! `sluice man`: writes the manual pages, one for each command, from the same source as `--help`.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::command_line;
use crate::output::{Done, GOOD, remark};

#[derive(Debug, Args)]
pub(in crate::command) struct Man {
    /// The folder, which is made if necessary
    folder: PathBuf,
}

impl Man {
    pub(in crate::command) fn run(&self) -> anyhow::Result<Done> {
        let folder = self.folder.display();
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(command_line(), &self.folder));
        written.with_context(|| format!("the manual pages cannot be written to `{folder}`"))?;
        remark(&format!("{GOOD}ok{GOOD:#}: wrote the manual pages to `{folder}`\n"))?;
        Ok(Done::Well)
    }
}
