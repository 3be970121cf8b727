//! `sluice stack`: lists the MCP servers that clients on this machine use, reports what they
//! can do, and routes them through Sluicegate.

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
use sluice_stack::{Advice, Configured, Survey};

use self::{machine::Machine, scan::Failed};
use crate::output::{Done, print, print_json, remark};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Stack {
    /// Ask each server for its tools; this starts servers that are commands
    #[arg(long)]
    scan: bool,
    /// Also scan servers in project files, which others may have written
    #[arg(long, requires = "scan")]
    projects: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Route servers through Sluicegate by rewriting the clients' files
    Adopt(adopt::Adopt),
    /// Revert the clients' files to what they were before `adopt`
    Restore(restore::Restore),
    /// Make clients ask before they call a server that was not accepted
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
        // Creates the key now, so that later runs recognise the servers stored here.
        machine.fingerprints()?;
        let configured = machine.read_configured()?;
        let failed = if self.scan { self.scan_servers(machine, &configured)? } else { Vec::new() };
        let memory = machine.memory()?;
        let catalog = machine.catalog();
        let mut survey = Survey::new(
            &configured,
            &memory,
            |entry| known::ability(&memory, catalog.as_ref(), entry),
            |entry| known::name_in_gateway(machine, entry),
        );
        for group in &mut survey.groups {
            // A server whose policy does not load is not started.
            if report::StackReport::unusable(group).is_some() {
                group.advice = Advice::AskFirst;
            }
        }
        let shown = report::StackReport {
            configured: &configured,
            survey: &survey,
            failed: &failed,
            declared: &machine.declared_servers(),
        };
        if self.json {
            print_json(&shown.json())?;
        } else {
            print(&page::draw(&shown, machine))?;
        }
        machine.remember(|memory| {
            memory.look(&configured);
            Ok(())
        })?;
        Ok(Done::well_if(configured.problems.is_empty()))
    }

    /// Scans servers; returns those that failed.
    fn scan_servers(
        &self,
        machine: &Machine,
        configured: &Configured,
    ) -> anyhow::Result<Vec<Failed>> {
        let used = || configured.entries().filter(|entry| !entry.is_disabled);
        let entries = scan::distinct(used().filter(|e| self.projects || !e.is_of_project));
        let failed = scan::all(machine, &entries)?;
        let left = scan::distinct(used()).len() - entries.len();
        if left > 0 {
            let servers = if left == 1 { "1 server is" } else { &format!("{left} servers are") };
            remark(&format!(
                "{servers} not asked, being in files of projects only\nhint: look at them first; `sluice stack --scan --projects` starts them too\n"
            ))?;
        }
        Ok(failed)
    }
}
