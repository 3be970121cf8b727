//! Reports the progress of an import, and lists its results for `--json`.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use serde_json::{Value, json};
use sluice_catalog::{At, Before, Change, Event, Imported, Problem};

use crate::output::{BAD, FAINT, count_noun, print, remark, shorten, visible};

/// Servers listed one by one; if there are more, only their number is printed.
const MOST_TOLD: u64 = 20;
/// Tool names printed on one line.
const MOST_NAMED: usize = 6;
/// Problems listed one by one; if there are more, only their number is printed.
const MOST_PROBLEMS: u64 = 100;

/// The display name of standard input.
pub(super) const STANDARD_INPUT: &str = "standard input";
/// The problem text for a server without a name.
const NO_NAME: &str = "the server has no name";

/// All imported and skipped entries, for `--json`.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) servers: Vec<Value>,
    pub(super) problems: Vec<Value>,
}

impl Lists {
    /// Adds a file that could not be read.
    pub(super) fn unread(&mut self, path: &Path, error: &io::Error) {
        let (file, message) = (path.display().to_string(), format!("cannot read it: {error}"));
        self.problems.push(problem_value(&Problem { file, at: At::Whole, message }));
    }
}

/// Prints progress during an import.
pub(super) struct ImportProgress<'i> {
    /// Collects the results for `--json`.
    lists: Option<&'i mut Lists>,
    /// The server name that the user gave.
    called: Option<&'i str>,
    /// Servers whose file contains another name than the one the user gave.
    otherwise: u64,
    is_terminal: bool,
    servers: u64,
    problems: u64,
    /// The progress that was printed last, in thousandths of the file.
    thousandth: u64,
}

impl<'i> ImportProgress<'i> {
    pub(super) fn new(lists: Option<&'i mut Lists>, called: Option<&'i str>) -> ImportProgress<'i> {
        let is_terminal = io::stderr().is_terminal();
        ImportProgress {
            lists,
            called,
            otherwise: 0,
            is_terminal,
            servers: 0,
            problems: 0,
            thousandth: 0,
        }
    }

    pub(super) fn take(&mut self, event: &Event<'_>) {
        // A failed write must not stop an import halfway.
        let _ = match event {
            Event::Problem(problem) => self.problem(problem),
            Event::Changed(change) => self.report_change(change),
            Event::Progress(imported) => self.progress(imported),
        };
    }

    fn problem(&mut self, problem: &Problem) -> io::Result<()> {
        self.problems += 1;
        if let Some(lists) = &mut self.lists {
            lists.problems.push(problem_value(problem));
        }
        if self.problems > MOST_PROBLEMS {
            return Ok(());
        }
        self.clear();
        // Standard input has no file name to use as the server's name.
        let is_unnamed = self.called.is_none() && problem.file == STANDARD_INPUT;
        let hint = if is_unnamed && problem.message.ends_with(NO_NAME) {
            "\nhint: name it with `--server`"
        } else {
            ""
        };
        remark(&format!("{BAD}error{BAD:#}: {}{hint}\n", visible(&problem.to_string())))
    }

    fn report_change(&mut self, change: &Change) -> io::Result<()> {
        self.servers += 1;
        self.otherwise += u64::from(self.called.is_some_and(|called| called != change.server));
        if let Some(lists) = &mut self.lists {
            lists.servers.push(change_value(change));
            return Ok(());
        }
        if self.servers > MOST_TOLD {
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
        let tools = count_noun(imported.tools, "tool");
        remark(&format!("\r{FAINT}{:>3} %  {tools}{FAINT:#}\u{1b}[K", thousandth / 10))
    }

    /// Clears the progress line from the screen.
    pub(super) fn clear(&mut self) {
        if self.is_terminal && self.thousandth > 0 {
            let _ = remark("\r\u{1b}[K");
            self.thousandth = 0;
        }
    }

    pub(super) fn finish(&mut self) {
        if self.servers > MOST_TOLD && self.lists.is_none() {
            let _ =
                print(&format!("and {}\n", count_noun(self.servers - MOST_TOLD, "more server")));
        }
        if self.problems > MOST_PROBLEMS {
            let left = self.problems - MOST_PROBLEMS;
            let _ = remark(&format!(
                "{BAD}error{BAD:#}: and {} like these\n",
                count_noun(left, "more problem")
            ));
        }
        if let Some(called) = self.called.filter(|_| self.otherwise > 0) {
            let (named, verb) = (
                count_noun(self.otherwise, "server"),
                if self.otherwise == 1 { "has its own name" } else { "have their own names" },
            );
            let called = visible(called);
            let _ = remark(&format!(
                "{FAINT}note{FAINT:#}: `--server {called}` was not used: {named} {verb}\n"
            ));
        }
    }
}

fn change_value(change: &Change) -> Value {
    let Change { server, before, tools, added, removed, changed } = change;
    let is_same = added.is_empty() && removed.is_empty() && changed.is_empty();
    let state = match before {
        Before::Nothing => "new",
        Before::Shipped | Before::Imported if is_same => "unchanged",
        Before::Shipped | Before::Imported => "changed",
    };
    json!({
        "server": server, "state": state, "replaces_shipped": *before == Before::Shipped,
        "tools": tools, "added": added, "removed": removed, "changed": changed,
    })
}

fn problem_value(problem: &Problem) -> Value {
    let Problem { file, at, message } = problem;
    let (line, entry) = match at {
        At::Line(number) => (Some(number), None),
        At::Entry(number) => (None, Some(number)),
        At::Whole => (None, None),
    };
    json!({ "file": file, "line": line, "entry": entry, "message": message })
}

/// The line that describes the changes to one server.
fn line(change: &Change) -> String {
    let server = visible(&change.server);
    let tools = match change.tools {
        Some(tools) => count_noun(tools, "tool"),
        None => "tools not known".to_owned(),
    };
    let mut parts = match change.before {
        Before::Nothing => return format!("{server}: new, {tools}\n"),
        Before::Shipped => vec![format!("{tools}, in place of the shipped entry")],
        Before::Imported => vec![tools],
    };
    for (word, names) in
        [("added", &change.added), ("removed", &change.removed), ("changed", &change.changed)]
    {
        if !names.is_empty() {
            parts.push(format!("{word} {}", list_names(names)));
        }
    }
    if parts.len() == 1 {
        parts.push("nothing changed".into());
    }
    format!("{server}: {}\n", parts.join("; "))
}

fn list_names(names: &[String]) -> String {
    let mut shown: Vec<String> =
        names.iter().take(MOST_NAMED).map(|name| shorten(name, 40)).collect();
    if names.len() > MOST_NAMED {
        shown.push(format!("{} more", names.len() - MOST_NAMED));
    }
    shown.join(", ")
}
