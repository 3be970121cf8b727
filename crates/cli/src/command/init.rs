//! `sluice init`: writes a configuration and a policy with tests to start from.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::json;

use crate::output::{Done, GOOD, complain, print_json, remark};

/// The files, by their paths in the folder.
const FILES: [(&str, &str); 2] = [
    ("sluice.toml", include_str!("init/sluice.toml")),
    ("policies/readers.json", include_str!("init/readers.json")),
];

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The folder, which is made if necessary
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Print {"files"} as JSON
    #[arg(long)]
    json: bool,
}

impl Init {
    pub(crate) fn run(&self) -> anyhow::Result<Done> {
        let files = FILES.map(|(name, text)| (self.folder.join(name), text));
        if let Some((file, _)) = files.iter().find(|(file, _)| file.exists()) {
            complain(&anyhow!(
                "`{}` exists already\nhint: name another folder, such as `sluice init gateway`",
                file.display()
            ));
            return Ok(Done::WithProblems);
        }
        for (file, text) in &files {
            write(file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
        }
        let names: Vec<_> = files.iter().map(|(file, _)| file.display().to_string()).collect();
        if self.json {
            print_json(&json!({ "files": names }))?;
            return Ok(Done::Well);
        }
        let folder = self.folder.display().to_string();
        let go = if folder == "." { String::new() } else { format!("  cd {folder}\n") };
        remark(&format!(
            "{GOOD}ok{GOOD:#}: wrote {}\n\nNext:\n{go}  sluice policy test policies/readers.json\n  sluice up\nand in a second terminal, in the same folder:\n  sluice grant create notes laptop --policy readers\n",
            names.join(" and ")
        ))?;
        Ok(Done::Well)
    }
}

/// Writes a new file, with its folder.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).open(file)?.write_all(text.as_bytes())
}
