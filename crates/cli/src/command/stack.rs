//! `sluice stack`: the MCP servers that clients on this machine are configured to
//! use, what they can do, and putting Sluicegate before them.

mod adopt;
mod drafts;
mod hook;
mod known;
mod listing;
mod machine;
mod page;
mod report;
mod restore;
mod scan;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sluice_stack::Survey;

use self::machine::Machine;
use crate::output::{Done, print, print_json};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Stack {
    /// Ask each server what tools it has, which starts those that are commands
    #[arg(long)]
    scan: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put Sluicegate before servers, by rewriting the clients' files
    Adopt(adopt::Adopt),
    /// Undo that, exactly
    Restore(restore::Restore),
    /// Have clients ask before they call a server that nobody has looked at
    Hook(hook::Hook),
}

impl Stack {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let machine = Machine::of_process(data)?;
        match self.command {
            Some(Command::Adopt(adopt)) => adopt.run(&machine),
            Some(Command::Restore(restore)) => restore.run(&machine),
            Some(Command::Hook(hook)) => hook.run(machine),
            None => self.show(&machine),
        }
    }

    fn show(&self, machine: &Machine) -> anyhow::Result<Done> {
        let configured = machine.configured()?;
        let mut memory = machine.memory()?;
        let failed = if self.scan {
            let entries = scan::distinct(configured.entries().filter(|entry| !entry.is_disabled));
            scan::all(machine, &mut memory, &entries)?
        } else {
            Vec::new()
        };
        let catalog = machine.catalog();
        let survey = Survey::new(
            &configured,
            &memory,
            |entry| known::ability(&memory, catalog.as_ref(), entry),
            |entry| known::registered(machine, entry),
        );
        let shown = report::Report {
            configured: &configured,
            survey: &survey,
            failed: &failed,
            declared: &machine.declared(),
        };
        if self.json {
            print_json(&shown.json())?;
        } else {
            print(&page::draw(&shown, machine))?;
        }
        memory.look(&configured);
        machine.remember(&memory)?;
        Ok(Done::well_if(configured.problems.is_empty()))
    }
}
