//! `sluice catalog import`.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use anyhow::bail;
use clap::Args;
use serde_json::json;
use sluice_catalog::{Before, Catalog, Change, Event, Imported};

use crate::output::{
    BAD, Done, FAINT, GOOD, counted, print, print_json, remark, shortened, visible,
};

/// Servers that are told one by one; of more, only how many.
const MOST_TOLD: u64 = 20;
/// Tools that are named in one line.
const MOST_NAMED: usize = 6;
/// Problems that are told; of more, only how many.
const MOST_PROBLEMS: u64 = 100;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Answers to `tools/list`, registries' `server.json` or lists of them, or lines of `{"server", "source", "tools"}`
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the server is called whose answer does not say it [default: the file's name]
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Print {"servers", "new", "tools", "problems", "older"} as JSON
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) fn run(&self, mut catalog: Catalog) -> anyhow::Result<Done> {
        if self.server.is_some() && self.files.len() > 1 {
            bail!(
                "`--server` names one server, and there are several files\nhint: import them one by one"
            );
        }
        let mut total = Imported::default();
        for file in &self.files {
            let mut told = Told::new(self.json);
            let imported =
                catalog.import(file, self.server.as_deref(), &mut |event| told.take(&event));
            told.clear();
            let imported = imported?;
            told.finish(&imported);
            total.servers += imported.servers;
            total.new += imported.new;
            total.tools += imported.tools;
            total.problems += imported.problems;
            total.older += imported.older;
        }
        if self.json {
            print_json(&json!({
                "servers": total.servers, "new": total.new, "tools": total.tools,
                "problems": total.problems, "older": total.older,
            }))?;
        } else {
            summary(&total)?;
        }
        Ok(Done::well_if(total.problems == 0))
    }
}

fn summary(total: &Imported) -> io::Result<()> {
    let word = if total.problems == 0 {
        format!("{GOOD}ok{GOOD:#}")
    } else {
        format!("{BAD}done with problems{BAD:#}")
    };
    let servers = counted(total.servers, "server");
    let tools = counted(total.tools, "tool");
    let mut parts = vec![format!("{servers} with {tools} imported")];
    if total.new > 0 {
        parts.push(format!("{} new", counted(total.new, "server")));
    }
    if total.problems > 0 {
        parts.push(format!("{} passed over", counted(total.problems, "thing")));
    }
    if total.older > 0 {
        parts.push(format!("{} left out", counted(total.older, "older version")));
    }
    remark(&format!("{word}: {}\n", parts.join("; ")))
}

/// Says what happens while it does.
struct Told {
    json: bool,
    is_terminal: bool,
    servers: u64,
    problems: u64,
    /// The last thousandth of the file that was told.
    thousandth: u64,
}

impl Told {
    fn new(json: bool) -> Told {
        let is_terminal = io::stderr().is_terminal();
        Told { json, is_terminal, servers: 0, problems: 0, thousandth: 0 }
    }

    fn take(&mut self, event: &Event<'_>) {
        // What cannot be written any more must not stop an import halfway.
        let _ = match event {
            Event::Problem(problem) => self.problem(problem),
            Event::Changed(change) => self.changed(change),
            Event::Progress(imported) => self.progress(imported),
        };
    }

    fn problem(&mut self, problem: &str) -> io::Result<()> {
        self.problems += 1;
        if self.problems > MOST_PROBLEMS {
            return Ok(());
        }
        self.clear();
        remark(&format!("{BAD}error{BAD:#}: {}\n", visible(problem)))
    }

    fn changed(&mut self, change: &Change) -> io::Result<()> {
        self.servers += 1;
        if self.json || self.servers > MOST_TOLD {
            return Ok(());
        }
        self.clear();
        print(&line(change))
    }

    fn progress(&mut self, imported: &Imported) -> io::Result<()> {
        let thousandth = imported.read * 1_000 / imported.bytes.max(1);
        if !self.is_terminal || thousandth == self.thousandth {
            return Ok(());
        }
        self.thousandth = thousandth;
        let tools = counted(imported.tools, "tool");
        remark(&format!("\r{FAINT}{:>3} %  {tools}{FAINT:#}\u{1b}[K", thousandth / 10))
    }

    /// Takes the progress off the screen.
    fn clear(&mut self) {
        if self.is_terminal && self.thousandth > 0 {
            let _ = remark("\r\u{1b}[K");
            self.thousandth = 0;
        }
    }

    fn finish(&mut self, imported: &Imported) {
        if self.servers > MOST_TOLD && !self.json {
            let _ = print(&format!("and {}\n", counted(self.servers - MOST_TOLD, "more server")));
        }
        if imported.problems > MOST_PROBLEMS {
            let left = imported.problems - MOST_PROBLEMS;
            let _ = remark(&format!(
                "{BAD}error{BAD:#}: and {} like these\n",
                counted(left, "more problem")
            ));
        }
    }
}

/// What has changed with one server.
fn line(change: &Change) -> String {
    let server = visible(&change.server);
    let tools = match change.tools {
        Some(tools) => counted(tools, "tool"),
        None => "tools not known".to_owned(),
    };
    let mut parts = match change.before {
        Before::Nothing => return format!("{server}: new, {tools}\n"),
        Before::Shipped => vec![format!("{tools}, in place of what is shipped")],
        Before::Imported => vec![tools],
    };
    for (word, names) in
        [("added", &change.added), ("removed", &change.removed), ("changed", &change.changed)]
    {
        if !names.is_empty() {
            parts.push(format!("{word} {}", named(names)));
        }
    }
    if parts.len() == 1 {
        parts.push("nothing changed".into());
    }
    format!("{server}: {}\n", parts.join("; "))
}

fn named(names: &[String]) -> String {
    let mut shown: Vec<String> =
        names.iter().take(MOST_NAMED).map(|name| shortened(name, 40)).collect();
    if names.len() > MOST_NAMED {
        shown.push(format!("{} more", names.len() - MOST_NAMED));
    }
    shown.join(", ")
}
