//! `sluice catalog build`: builds `catalog/index.bin`, for developers of this program.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use crate::output::{Done, GOOD, remark, visible};

#[derive(Debug, Args)]
pub(crate) struct Build {
    /// The folder of definitions: `.jsonl` files, one server a line
    folder: PathBuf,
    /// The file to write
    out: PathBuf,
}

impl Build {
    pub(crate) fn run(&self) -> anyhow::Result<Done> {
        let index = sluice_catalog::build(&self.folder)?;
        std::fs::write(&self.out, &index)
            .with_context(|| format!("cannot write `{}`", self.out.display()))?;
        let (out, bytes) = (visible(&self.out.display().to_string()), index.len());
        remark(&format!("{GOOD}ok{GOOD:#}: {out} has {bytes} bytes\n"))?;
        Ok(Done::Well)
    }
}
