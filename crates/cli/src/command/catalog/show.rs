//! `sluice catalog show`: the page of a server or of a tool.

mod server;
mod tool;

use anyhow::bail;
use clap::Args;
use sluice_admin::known::{KnownServerPage, KnownToolPage};
use sluice_catalog::{Catalog, Server, Taken};

use crate::output::{Done, print, print_json, print_json_text};

#[derive(Debug, Args)]
pub(crate) struct ShowEntry {
    /// A server by its name or slug, or one of its tools as `SERVER/TOOL`
    #[arg(value_name = "SERVER[/TOOL]")]
    what: String,
    /// Show all tools and attack patterns
    #[arg(long)]
    all: bool,
    /// Print only the recommended policy
    #[arg(long, conflicts_with_all = ["json", "all"])]
    policy: bool,
    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
}

impl ShowEntry {
    pub(crate) fn run(&self, catalog: &Catalog) -> anyhow::Result<Done> {
        match catalog.take(&self.what)? {
            Taken::Server(server) => self.server(catalog, &server)?,
            Taken::Tool(server, tool) if self.json => {
                print_json(&KnownToolPage::read(catalog, &server, &tool)?)?;
            }
            Taken::Tool(_, tool) if self.policy => {
                print_json_text(&server::policy(std::slice::from_ref(&tool)))?;
            }
            Taken::Tool(server, tool) => {
                print(&tool::page(catalog, &server, &tool, self.all)?)?;
            }
            Taken::NoTool(server, name) => {
                let near = near(&catalog.near_tools(&server, &name)?, &server.slug);
                bail!("server `{}` has no tool `{name}`{near}", server.name);
            }
            Taken::Nothing => {
                let hint = match catalog.near_servers(&self.what)?.as_slice() {
                    [] => "\nhint: `sluice catalog search` finds servers by words".to_owned(),
                    near => format!("\nhint: did you mean {}?", either(near)),
                };
                bail!("there is no server `{}` in the catalogue{hint}", self.what);
            }
        }
        Ok(Done::Well)
    }

    fn server(&self, catalog: &Catalog, server: &Server) -> anyhow::Result<()> {
        if self.json {
            return print_json(&KnownServerPage::read(catalog, server)?);
        }
        let tools = catalog.tools(server)?;
        if self.policy {
            if server.counts.is_none() {
                bail!(
                    "the tools of server `{}` are not known\nhint: import its answer to `tools/list`",
                    server.name
                );
            }
            print_json_text(&server::policy(&tools))?;
            return Ok(());
        }
        Ok(print(&server::page(server, &tools, self.all))?)
    }
}

fn near(names: &[String], slug: &str) -> String {
    if names.is_empty() {
        return format!("\nhint: `sluice catalog show {slug} --all` lists its tools");
    }
    format!("\nhint: did you mean {}?", either(names))
}

fn either(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
