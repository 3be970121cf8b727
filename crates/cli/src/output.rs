//! Output for people and for programs, and the exit code.

mod fit;
mod json;
mod shell;
mod snippet;
mod table;

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
pub(crate) use sluice_catalog::count::{count_noun, thousands};
pub(crate) use sluice_classify::visible;

pub(crate) use fit::{Screen, fit, shorten, wide, wrap_lines};
pub(crate) use shell::quote_for_shell;
pub(crate) use snippet::{problem, warning};
pub(crate) use table::{Cell, Columns, table};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const HELD: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// The command succeeded.
    Well,
    /// The command was refused, or found problems.
    WithProblems,
    /// The command was used incorrectly, or could not read its input.
    Misused,
    /// The command passes on the exit code of another program.
    As(u8),
}

impl Done {
    /// `Well`, unless there are problems.
    pub(crate) fn well_if(well: bool) -> Done {
        if well { Done::Well } else { Done::WithProblems }
    }
}

impl From<Done> for ExitCode {
    fn from(done: Done) -> ExitCode {
        ExitCode::from(match done {
            Done::Well => 0,
            Done::WithProblems => 1,
            Done::Misused => 2,
            Done::As(code) => code,
        })
    }
}

/// Writes data to standard output, without colours if the output does not support them.
pub(crate) fn print(text: &str) -> io::Result<()> {
    unless_closed(anstream::stdout().write_all(text.as_bytes()))
}

/// Writes data as one JSON document.
pub(crate) fn print_json(data: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(data)?;
    text.push('\n');
    print_json_text(&text)?;
    Ok(())
}

/// Writes JSON that is already text, such as a policy; returns whether the reader is still there.
pub(crate) fn print_json_text(text: &str) -> io::Result<bool> {
    print_bytes(json::escape_controls(text).as_bytes())
}

/// Writes untrusted text: escaped on a terminal, unchanged elsewhere.
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    if !io::stdout().is_terminal() {
        return print_bytes(text.as_bytes()).map(|_| ());
    }
    let lines = text.lines().map(|line| {
        // Tabs are harmless.
        let parts: Vec<_> = line.split('\t').map(visible).collect();
        parts.join("\t") + "\n"
    });
    print(&lines.collect::<String>())
}

/// Writes a part of a longer output; returns whether the reader is still there.
pub(crate) fn print_part(text: &str) -> io::Result<bool> {
    is_read(&mut anstream::stdout(), text.as_bytes())
}

/// Like `print_part`, for bytes that must not be changed.
pub(crate) fn print_bytes(bytes: &[u8]) -> io::Result<bool> {
    is_read(&mut io::stdout(), bytes)
}

fn is_read(out: &mut impl io::Write, bytes: &[u8]) -> io::Result<bool> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a message to standard error.
pub(crate) fn remark(text: &str) -> io::Result<()> {
    unless_closed(anstream::stderr().write_all(text.as_bytes()))
}

/// A reader that stops early is not a failure, and does not change the exit code.
fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints why a command failed.
pub(crate) fn complain(error: &anyhow::Error) {
    let (mut causes, mut hints) = (Vec::new(), Vec::new());
    for cause in error.chain().map(ToString::to_string) {
        let (cause, hint) = match cause.split_once("\nhint: ") {
            Some((cause, hint)) => (cause.to_owned(), Some(format!("\nhint: {hint}"))),
            None => (cause, None),
        };
        causes.push(cause);
        hints.extend(hint);
    }
    // A hint gets its own line, after what is wrong.
    let text = causes.join(": ") + &hints.concat();
    let text = text.lines().map(visible).collect::<Vec<_>>().join("\n");
    // If this cannot be written, there is nothing left to try.
    let _ = remark(&format!("{BAD}error{BAD:#}: {text}\n"));
}
