//! `sluice catalog import`.

mod progress;

use std::{
    io,
    path::{Path, PathBuf},
};

use anyhow::bail;
use clap::Args;
use serde_json::json;
use sluice_catalog::{Catalog, ImportError, Imported};

use self::progress::{ImportProgress, Lists, STANDARD_INPUT};
use crate::output::{BAD, Done, GOOD, complain, count_noun, print_json, remark};

#[derive(Debug, Args)]
pub(crate) struct ImportServers {
    /// Answers to `tools/list`, registries' `server.json` or lists of them, or lines of `{"server", "source", "tools"}`; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The name of a server whose file does not contain it [default: the file's name]
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Print {"servers", "new", "tools", "problems", "older", `"server_list"`, `"problem_list"`} as JSON
    #[arg(long)]
    json: bool,
}

impl ImportServers {
    pub(crate) fn run(&self, mut catalog: Catalog) -> anyhow::Result<Done> {
        if self.server.is_some() && self.files.len() > 1 {
            bail!(
                "`--server` names one server, and there are several files\nhint: import them one by one"
            );
        }
        let mut total = Imported::default();
        let mut lists = Lists::default();
        let mut unread = 0;
        for file in &self.files {
            match self.one(&mut catalog, file, &mut lists) {
                Ok(imported) => {
                    total.servers += imported.servers;
                    total.new += imported.new;
                    total.tools += imported.tools;
                    total.problems += imported.problems;
                    total.older += imported.older;
                }
                Err(ImportError::Read(path, error)) => {
                    unread += 1;
                    lists.unread(&path, &error);
                    complain(&ImportError::Read(path, error).into());
                }
                Err(error @ ImportError::Catalog(_)) => return Err(error.into()),
            }
        }
        if self.json {
            print_json(&json!({
                "servers": total.servers, "new": total.new, "tools": total.tools,
                "problems": total.problems + unread, "older": total.older,
                "server_list": lists.servers, "problem_list": lists.problems,
            }))?;
        }
        if unread == self.files.len() as u64 {
            return Ok(Done::Misused);
        }
        if !self.json {
            summary(&total, unread)?;
        }
        Ok(Done::well_if(total.problems + unread == 0))
    }

    /// Imports one file, or standard input.
    fn one(
        &self,
        catalog: &mut Catalog,
        file: &Path,
        lists: &mut Lists,
    ) -> Result<Imported, ImportError> {
        let called = self.server.as_deref();
        let mut told = ImportProgress::new(self.json.then_some(lists), called);
        let imported = if file == Path::new("-") {
            let label = Path::new(STANDARD_INPUT);
            catalog.import_stream(io::stdin(), label, called, &mut |event| told.take(&event))
        } else {
            catalog.import(file, called, &mut |event| told.take(&event))
        };
        told.clear();
        told.finish();
        imported
    }
}

fn summary(total: &Imported, unread: u64) -> io::Result<()> {
    let word = if total.problems + unread == 0 {
        format!("{GOOD}ok{GOOD:#}")
    } else {
        format!("{BAD}done with problems{BAD:#}")
    };
    let servers = count_noun(total.servers, "server");
    let tools = match total.tools {
        0 => String::new(),
        tools => format!(" with {}", count_noun(tools, "tool")),
    };
    let mut parts = vec![format!("{servers}{tools} imported")];
    if total.new > 0 {
        parts.push(if total.servers == 1 { "new".into() } else { format!("{} new", total.new) });
    }
    if total.problems > 0 {
        parts.push(format!("{} passed over", count_noun(total.problems, "thing")));
    }
    if total.older > 0 {
        parts.push(format!("{} left out", count_noun(total.older, "older version")));
    }
    if unread > 0 {
        parts.push(format!("{} not read", count_noun(unread, "file")));
    }
    remark(&format!("{word}: {}\n", parts.join("; ")))
}
