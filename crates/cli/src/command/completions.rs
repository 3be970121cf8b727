//! `sluice completions`: shell completion scripts. A script asks this program for candidates, so
//! that it knows the servers, policies, grants and tools of the running gateway.

use anyhow::Context as _;
use clap::Args;
use clap_complete::{Shell, env::Shells};

use super::line::COMPLETE;
use crate::output::{Done, print};

/// The name by which a shell finds this program.
const PROGRAM: &str = "sluice";

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to complete for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> anyhow::Result<Done> {
        let name = self.shell.to_string();
        let shells = Shells::builtins();
        let shell = shells.completer(&name).with_context(|| format!("`{name}` is not known"))?;
        let mut script = Vec::new();
        shell.write_registration(COMPLETE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
        print(&String::from_utf8(script)?)?;
        Ok(Done::Well)
    }
}
