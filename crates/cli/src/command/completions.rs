//! `sluice completions`: shell completion scripts.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Arguments;
use crate::output::{Done, print};

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to complete for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> anyhow::Result<Done> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "sluice", &mut script);
        print(&String::from_utf8(script)?)?;
        Ok(Done::Well)
    }
}
