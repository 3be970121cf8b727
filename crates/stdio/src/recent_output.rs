//! A ring buffer of the last lines that a child wrote to stderr, or to stdout outside the
//! protocol, for error messages. Secrets are removed before a line comes here.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tokio::sync::watch;

use super::output_log::LONGEST;

/// Lines that are quoted in an error, and characters of each.
const MOST_SHOWN: usize = 10;
const LONGEST_SHOWN: usize = 200;

/// Lines that are kept.
const MOST_LINES: usize = 20;

/// The last lines of one child; clones share them.
#[derive(Debug, Clone)]
pub struct Overheard {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// The first stdout line that was not a message.
    stray: Arc<OnceLock<String>>,
    closed: watch::Sender<bool>,
}

impl Default for Overheard {
    fn default() -> Overheard {
        Overheard {
            lines: Arc::default(),
            stray: Arc::default(),
            closed: watch::Sender::new(false),
        }
    }
}

impl Overheard {
    /// The last lines, the newest last. Raw text, unsafe to print to a terminal.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The first stdout line that was not a message.
    pub fn first_stray(&self) -> Option<&str> {
        self.stray.get().map(String::as_str)
    }

    /// Waits until the child has closed its stderr.
    pub async fn wait_closed(&self) {
        // This struct holds the sender, so the wait cannot fail.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    pub(super) fn stray(&self, line: &str) {
        self.stray.get_or_init(|| shorten(line));
    }

    pub(super) fn push(&self, line: &str) {
        let line = shorten(line);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > MOST_LINES {
            lines.pop_front();
        }
    }

    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }
}

/// The last lines of a child, as they may be quoted in an error.
#[derive(Debug, Clone)]
pub(super) struct LastWords {
    overheard: Overheard,
}

impl LastWords {
    pub(super) fn new(overheard: Overheard) -> LastWords {
        LastWords { overheard }
    }

    /// The last lines joined into one, without control characters; `None` if there are
    /// none.
    pub(super) fn text(&self) -> Option<String> {
        let lines = self.overheard.lines();
        let shortened =
            |line: &String| -> String { plain(line).trim().chars().take(LONGEST_SHOWN).collect() };
        let lines: Vec<String> =
            lines.iter().map(shortened).filter(|line| !line.is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(MOST_SHOWN)..).unwrap_or(&lines);
        (!last.is_empty()).then(|| last.join(" | "))
    }
}

/// A line without control characters and escape sequences.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' if rest.as_str().starts_with('[') => {
                // Skips to the letter that ends the escape sequence.
                rest.by_ref().skip(1).find(|c| ('@'..='~').contains(c));
            }
            '\t' => plain.push(' '),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

/// Shortens a line.
fn shorten(line: &str) -> String {
    line.trim_end().chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, LONGEST_SHOWN, LastWords, MOST_LINES, MOST_SHOWN, Overheard};

    #[test]
    fn quoted_lines_are_short_and_plain() {
        let overheard = Overheard::default();
        let words = LastWords::new(overheard.clone());
        assert_eq!(words.text(), None);
        overheard.push("\x1b[1;31mError\x1b[0m:\tkey [secret], 1 \x07time\r\n");
        overheard.push("   ");
        overheard.push(&"x".repeat(999));
        let text = words.text().unwrap();
        let (first, second) = text.split_once(" | ").unwrap();
        assert_eq!(first, "Error: key [secret], 1 time");
        assert_eq!(second.len(), LONGEST_SHOWN);
        for _ in 0..99 {
            overheard.push("again");
        }
        assert_eq!(words.text().unwrap().matches("again").count(), MOST_SHOWN);
    }

    #[test]
    fn only_the_last_lines_are_kept_and_each_is_shortened() {
        let overheard = Overheard::default();
        for number in 0..100 {
            overheard.push(&format!("{number}"));
        }
        overheard.push(&"x".repeat(99_999));
        let lines = overheard.lines();
        assert_eq!(lines.len(), MOST_LINES);
        assert_eq!(lines[MOST_LINES - 2], "99");
        assert_eq!(lines[MOST_LINES - 1].len(), LONGEST);
    }
}
