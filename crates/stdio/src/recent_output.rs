//! Keeps the last lines that a child wrote besides its messages, to report what it is
//! doing or why it exited.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use sluice_wire::edit::quote;
use tokio::sync::watch;

use super::output_log::LONGEST;

/// Lines that are quoted in an error, and characters of each.
const MOST_SHOWN: usize = 10;
const LONGEST_SHOWN: usize = 200;
/// Shorter values are not treated as secrets: masking them would garble ordinary words.
const SHORTEST_SECRET: usize = 4;
/// The same for a part of a secret.
const SHORTEST_PIECE: usize = 6;
/// The replacement of a secret.
const MASK: &str = "…";

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

    pub(super) fn stray(&self, line: &[u8]) {
        self.stray.get_or_init(|| shorten(line));
    }

    pub(super) fn push(&self, line: &[u8]) {
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
    /// Texts that must not be quoted: values that only this child was given.
    secrets: Arc<[String]>,
}

impl LastWords {
    pub(super) fn new(overheard: Overheard, secrets: impl Iterator<Item = String>) -> LastWords {
        let mut secrets: Vec<String> = secrets.flat_map(|secret| forms(&secret)).collect();
        // The longest first, because one may be part of another.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        LastWords { overheard, secrets: secrets.into() }
    }

    /// The last lines joined into one, without control characters; `None` if there are
    /// none.
    pub(super) fn text(&self) -> Option<String> {
        let lines = self.overheard.lines();
        let lines: Vec<String> = lines.iter().map(|line| self.mask(line)).collect();
        let lines: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(MOST_SHOWN)..).unwrap_or(&lines);
        (!last.is_empty()).then(|| last.join(" | "))
    }

    /// Masks the beginning of a secret at the end of a line, where the line may have been
    /// cut.
    fn hide_end(&self, line: &mut String) {
        let end = line.trim_end_matches(['\u{fffd}', ' ']);
        let begins = |secret: &String| {
            let lengths = SHORTEST_PIECE..=secret.len().min(end.len());
            let mut starts = lengths.rev().filter_map(|length| secret.get(..length));
            starts.find(|start| end.ends_with(start)).map(str::len)
        };
        if let Some(length) = self.secrets.iter().filter_map(begins).max() {
            let kept = end.len() - length;
            line.truncate(kept);
            line.push_str(MASK);
        }
    }

    fn mask(&self, line: &str) -> String {
        let mut line = plain(line);
        for secret in &*self.secrets {
            line = line.replace(secret, MASK);
        }
        self.hide_end(&mut line);
        line.trim().chars().take(LONGEST_SHOWN).collect()
    }
}

/// The forms in which a secret may appear in a line: as it is or escaped as in JSON, as a
/// whole or one of its lines.
fn forms(secret: &str) -> Vec<String> {
    let lines = secret.split(['\r', '\n']).map(str::trim);
    let lines = lines.filter(|line| *line != secret.trim() && line.len() >= SHORTEST_PIECE);
    let pieces = std::iter::once(secret.trim()).chain(lines);
    let forms = pieces.flat_map(|piece| {
        let quoted = quote(piece);
        let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        [plain(piece), inner.unwrap_or_default().to_owned()]
    });
    forms.filter(|form| form.len() >= SHORTEST_SECRET).collect()
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
fn shorten(line: &[u8]) -> String {
    let start = line.get(..LONGEST * 4).unwrap_or(line);
    String::from_utf8_lossy(start).trim_end().chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, LONGEST_SHOWN, LastWords, MOST_LINES, MOST_SHOWN, Overheard};

    #[test]
    fn quoted_lines_are_short_and_contain_no_secrets() {
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
    fn multi_line_escaped_and_cut_secrets_are_masked() {
        let check = |secret: &str, line: &str, expected: &str| {
            let overheard = Overheard::default();
            let words = LastWords::new(overheard.clone(), [secret.to_owned()].into_iter());
            overheard.push(line.as_bytes());
            assert_eq!(words.text().unwrap(), expected, "{line}");
        };
        let key = "-----BEGIN-----\r\nMIIEvQIBADAN\n  abcdefgh\nend";
        check(key, "it has MIIEvQIBADAN in it", "it has … in it");
        check(key, "abcdefgh", "…");
        check(key, "the end", "the end");
        let escaped = r#"{"key":"-----BEGIN-----\r\nMIIEvQIBADAN\n  abcdefgh\nend"}"#;
        check(key, escaped, r#"{"key":"…"}"#);
        check("a\tquoted\"word", r#"got a\tquoted\"word"#, "got …");
        check("a\tquoted\"word", "got a\tquoted\"word", "got …");
        let long = "0123456789".repeat(200);
        check(&long, &format!("token {long} is wrong"), "token …");
    }

    #[test]
    fn only_the_last_lines_are_kept_and_each_is_shortened() {
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
