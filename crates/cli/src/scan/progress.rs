//! Progress output on a terminal while a slow server starts.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use super::explain::plain;
use crate::output::{FAINT, fit};

/// Whether standard error is a terminal.
pub(super) fn has_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Shows the awaited step, the time spent on it, and the last line of output.
pub(super) fn show(what: &str, waited: Duration, last: Option<&str>) {
    draw(&line(what, waited, last));
}

/// Clears the line.
pub(super) fn clear() {
    draw("");
}

fn line(what: &str, waited: Duration, last: Option<&str>) -> String {
    let last = last.map(|last| format!(" · {}", plain(last))).unwrap_or_default();
    format!("waiting for {} · {} s{last}", fit(&plain(what), 40), waited.as_secs())
}

/// Replaces the previous line.
fn draw(line: &str) {
    let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| width.0);
    let line = fit(line, usize::from(width).saturating_sub(1));
    let mut out = anstream::stderr();
    // If the terminal is gone, nobody sees the progress.
    let _ = write!(out, "\r\u{1b}[K{FAINT}{line}{FAINT:#}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::line;

    #[test]
    fn the_progress_line_shows_the_wait_and_the_last_output() {
        let waited = Duration::from_millis(12_900);
        assert_eq!(line("npx x", waited, None), "waiting for npx x · 12 s");
        assert_eq!(
            line("npx x", waited, Some("\u{1b}[31mnpm\u{1b}[0m warn\u{202e}")),
            "waiting for npx x · 12 s · npm warn\\u{202e}"
        );
    }
}
