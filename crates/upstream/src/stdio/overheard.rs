//! What a child writes besides its messages, kept for somebody who wants to know
//! what it is doing, or why it ended.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tokio::sync::watch;

use super::chatter::LONGEST;

/// Lines that are repeated in a message, and characters of each.
const MOST_SHOWN: usize = 10;
const LONGEST_SHOWN: usize = 200;
/// Shorter values are not secrets, and would tear holes into words.
const SHORTEST_SECRET: usize = 4;

/// Lines that are kept.
const MOST_LINES: usize = 20;

/// The last lines of one child; clones are the same.
#[derive(Debug, Clone)]
pub struct Overheard {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// The first line that stood where only messages may stand.
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
    /// The last lines, the newest last. Raw text, which a terminal must not see.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The first line that it wrote in place of a message.
    pub fn first_stray(&self) -> Option<&str> {
        self.stray.get().map(String::as_str)
    }

    /// Waits until the child has closed its error output.
    pub async fn closed(&self) {
        // The sender is here, so that this cannot fail.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    pub(super) fn stray(&self, line: &[u8]) {
        self.stray.get_or_init(|| kept(line));
    }

    pub(super) fn push(&self, line: &[u8]) {
        let line = kept(line);
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

/// What a child wrote last, as it may stand in a message about it.
#[derive(Debug, Clone)]
pub(super) struct LastWords {
    overheard: Overheard,
    /// Texts that must not be repeated: values that only this child was given.
    secrets: Arc<[String]>,
}

impl LastWords {
    pub(super) fn new(overheard: Overheard, secrets: impl Iterator<Item = String>) -> LastWords {
        let mut secrets: Vec<String> =
            secrets.filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
        // One may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        LastWords { overheard, secrets: secrets.into() }
    }

    /// The last lines as one, without what steers a terminal; `None` if there are none.
    pub(super) fn text(&self) -> Option<String> {
        let lines = self.overheard.lines();
        let lines: Vec<String> = lines.iter().map(|line| self.shown(line)).collect();
        let lines: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(MOST_SHOWN)..).unwrap_or(&lines);
        (!last.is_empty()).then(|| last.join(" | "))
    }

    fn shown(&self, line: &str) -> String {
        let mut line = plain(line);
        for secret in &*self.secrets {
            line = line.replace(secret, "…");
        }
        line.trim().chars().take(LONGEST_SHOWN).collect()
    }
}

/// A line without control characters, and without the sequences that begin with one.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' if rest.as_str().starts_with('[') => {
                // Up to the letter that says what the sequence does.
                rest.by_ref().skip(1).find(|c| ('@'..='~').contains(c));
            }
            '\t' => plain.push(' '),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

/// What is kept of a line.
fn kept(line: &[u8]) -> String {
    let start = line.get(..LONGEST * 4).unwrap_or(line);
    String::from_utf8_lossy(start).trim_end().chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, LONGEST_SHOWN, LastWords, MOST_LINES, MOST_SHOWN, Overheard};

    #[test]
    fn last_words_are_short_plain_and_hold_no_secret() {
        let overheard = Overheard::default();
        let secrets = ["hush", "hush-hush", "1"].map(str::to_owned);
        let words = LastWords::new(overheard.clone(), secrets.into_iter());
        assert_eq!(words.text(), None);
        overheard.push(b"\x1b[1;31mError\x1b[0m:\tkey hush-hush, 1 \x07time\r\n");
        overheard.push(b"   ");
        overheard.push("x".repeat(999).as_bytes());
        let text = words.text().unwrap();
        let (first, second) = text.split_once(" | ").unwrap();
        assert_eq!(first, "Error: key …, 1 time");
        assert_eq!(second.len(), LONGEST_SHOWN);
        for _ in 0..99 {
            overheard.push(b"again");
        }
        assert_eq!(words.text().unwrap().matches("again").count(), MOST_SHOWN);
    }

    #[test]
    fn the_last_lines_are_kept_and_none_is_long() {
        let overheard = Overheard::default();
        for number in 0..100 {
            overheard.push(format!("{number}").as_bytes());
        }
        overheard.push(&vec![b'x'; 99_999]);
        let lines = overheard.lines();
        assert_eq!(lines.len(), MOST_LINES);
        assert_eq!(lines[MOST_LINES - 2], "99");
        assert_eq!(lines[MOST_LINES - 1].len(), LONGEST);
    }
}
