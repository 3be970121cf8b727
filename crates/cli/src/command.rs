//! The commands: one file each, with its arguments.

mod backup;
mod call;
mod catalog;
mod classify;
mod completions;
mod config;
mod doctor;
mod flags;
mod grant;
mod hints;
mod init;
mod line;
mod log;
mod open;
mod people;
mod pharo;
mod policy;
mod scan;
mod server;
mod stack;
mod status;
mod supervise;
mod tokens;
mod up;
mod wrap;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

pub(crate) use config::draw_problems;
pub(crate) use line::{COMPLETE, completed_line, read};

use crate::output::{Done, remark};

/// A gateway between AI agents and MCP servers.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// The data directory [default: `SLUICE_DATA`, else `data` of sluice.toml, else the user's own]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a configuration and a policy with tests to start from
    Init(init::Init),
    /// Run the gateway
    Up(up::Up),
    /// Run a gateway over stdio, for a client that starts its server as a command
    Wrap(wrap::Wrap),
    /// Call a tool through the gateway, as an agent would
    Call(call::Call),
    /// Manage the servers behind the gateway
    #[command(subcommand)]
    Server(server::ServerCommand),
    /// Check, test, explain, import, compare and activate policies
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Manage grants: the tokens with which agents connect
    #[command(subcommand)]
    Grant(grant::GrantCommand),
    /// Sign in to the admin pages as the owner of the data directory
    Open(open::Open),
    /// Manage the people who may sign in, and their roles
    #[command(subcommand)]
    People(people::PeopleCommand),
    /// Manage API tokens, with which programs act in the name of a person
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// Read, export and verify the audit log
    Log(Box<log::Log>),
    /// Show the running gateway and the active versions of its configuration and policies
    Status(status::Status),
    /// Write a copy of the data directory to a file, also while a gateway runs
    Backup(backup::Backup),
    /// Put a backup in the place of what the data directory holds
    Restore(backup::RestoreBackup),
    /// Find what needs a person's decision, such as a system clock that has jumped
    Doctor(doctor::Doctor),
    /// List and protect the MCP servers that clients on this machine use
    Stack(Box<stack::Stack>),
    /// Run the Pharo Smalltalk Interop MCP server over stdio
    Pharo(pharo::Pharo),
    /// Connect to a server and report what its tools can do and how to restrict them
    Scan(scan::ScanCommand),
    /// Classify tools by their definitions
    Classify(classify::Classify),
    /// Search and extend the catalogue of known servers and tools
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Check the configuration and show the effective settings
    Config(config::ShowConfig),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Write the manual pages
    #[command(hide = true)]
    Man(line::Man),
    /// Run a command, and stop it with all its child processes when standard input closes
    #[command(hide = true)]
    Supervise(supervise::Supervise),
}

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Done> {
    match arguments.command {
        Command::Init(init) => init.run(),
        Command::Up(up) => up.run(arguments.data),
        Command::Wrap(wrap) => wrap.run(arguments.data),
        Command::Call(call) => call.run(arguments.data),
        Command::Server(command) => server::run(command, arguments.data),
        Command::Policy(command) => policy::run(command, arguments.data),
        Command::Grant(command) => grant::run(command, arguments.data),
        Command::Open(open) => open.run(arguments.data),
        Command::People(command) => people::run(&command, arguments.data),
        Command::Tokens(command) => tokens::run(&command, arguments.data),
        Command::Log(log) => log.run(arguments.data),
        Command::Status(status) => status.run(arguments.data),
        Command::Backup(backup) => backup.run(arguments.data),
        Command::Restore(restore) => restore.run(arguments.data),
        Command::Doctor(doctor) => doctor.run(arguments.data),
        Command::Stack(stack) => stack.run(arguments.data),
        Command::Pharo(pharo) => pharo.run(),
        Command::Scan(scan) => scan.run(),
        Command::Classify(classify) => classify.run(),
        Command::Catalog(command) => catalog::run(command, arguments.data),
        Command::Config(show) => show.run(arguments.data),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
        Command::Supervise(supervise) => supervise.run(),
    }
}

/// Prints the argument errors, or the help text if it was requested.
pub(crate) fn misread(mut error: clap::Error) -> ExitCode {
    line::forget_hidden(&mut error);
    // If this cannot be written, there is nothing left to try.
    let _ = error.print();
    let words: Vec<_> = std::env::args().skip(1).collect();
    if let Some(hint) = hints::find(&error, &words) {
        let _ = remark(&format!("hint: {hint}\n"));
    }
    if error.use_stderr()
        && let Some(example) = line::example(&words)
    {
        let _ = remark(&format!("example: {example}\n"));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
