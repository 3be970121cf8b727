//! `sluice catalog`: the catalogue of known servers and tools.

mod build;
mod export;
mod import;
mod page;
mod remove;
mod search;
mod show;
mod stats;

use std::path::PathBuf;

use clap::Subcommand;
use sluice_catalog::Catalog;

use crate::{
    data::{DataDirectory, catalog_file},
    output::{Done, FAINT, remark, visible},
};
use sluice_config::{Environment, Overrides};

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Search servers and tools by words, category, risk and signal
    Search(search::Search),
    /// Show a server, or one of its tools
    Show(show::ShowEntry),
    /// Import tool definitions, or the servers of a registry
    Import(import::ImportServers),
    /// Remove imported servers
    Remove(remove::Remove),
    /// Write the catalogue as web pages
    Export(export::ExportSite),
    /// Show statistics of the catalogue
    Stats(stats::Stats),
    /// Build the index that ships with this program from a folder of definitions
    #[command(hide = true)]
    Build(build::Build),
}

pub(crate) fn run(command: CatalogCommand, data: Option<PathBuf>) -> anyhow::Result<Done> {
    match command {
        CatalogCommand::Search(search) => search.run(&open(data)?),
        CatalogCommand::Show(show) => show.run(&open(data)?),
        CatalogCommand::Import(import) => import.run(open_to_write(data)?),
        CatalogCommand::Remove(remove) => remove.run(open_to_write(data)?),
        CatalogCommand::Export(export) => export.run(&open(data)?),
        CatalogCommand::Stats(stats) => stats.run(&open(data)?),
        CatalogCommand::Build(build) => build.run(),
    }
}

/// The catalogue of the data directory, or the shipped one if there is no data directory.
fn open(data: Option<PathBuf>) -> anyhow::Result<Catalog> {
    let directory = directory(data)?;
    let catalog = match DataDirectory::open(&directory) {
        Ok(directory) => Catalog::open(&catalog_file(directory.path()))?,
        Err(error) => {
            let why = error.to_string();
            note(why.lines().next().unwrap_or_default())?;
            return Ok(Catalog::in_memory()?);
        }
    };
    if let Some(why) = catalog.unkept() {
        note(&format!("the catalogue cannot be written ({why})"))?;
    }
    Ok(catalog)
}

fn open_to_write(data: Option<PathBuf>) -> anyhow::Result<Catalog> {
    let directory = DataDirectory::open(&directory(data)?)?;
    Ok(Catalog::open_to_write(&catalog_file(directory.path()))?)
}

fn directory(data: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let overrides = Overrides { data, ..Overrides::default() };
    Ok(sluice_config::data_directory(&overrides, &Environment::of_process())?)
}

fn note(why: &str) -> anyhow::Result<()> {
    let why = visible(why);
    Ok(remark(&format!("{FAINT}note{FAINT:#}: {why}; nothing can be imported\n"))?)
}
