//! Rate-limited logging of output that is not a protocol message, without the secrets of the
//! server.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
    time::Duration,
};

use sluice_wire::secrets::Secrets;
use tokio::time::Instant;

use super::{launch::Errors, recent_output::Overheard};

/// The most lines of one server in one window.
const MOST_LINES: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);
/// The most characters of one line.
pub(super) const LONGEST: usize = 1000;

/// The log of one server; clones share the rate limit.
#[derive(Debug, Clone)]
pub(super) struct Chatter {
    server: Arc<str>,
    spent: Arc<Mutex<Spent>>,
    secrets: Secrets,
    /// Receives the lines instead of the log.
    reader: Option<Overheard>,
}

#[derive(Debug)]
struct Spent {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl Chatter {
    pub(super) fn new(server: &str, secrets: Secrets) -> Chatter {
        let spent = Spent { since: Instant::now(), lines: 0, left_out: 0 };
        Chatter { server: server.into(), spent: Arc::new(Mutex::new(spent)), secrets, reader: None }
    }

    /// The log of a server, or a buffer if `errors` names one.
    pub(super) fn read_by(server: &str, secrets: Secrets, errors: &Errors) -> Chatter {
        let reader = match errors {
            Errors::Keep(overheard) => Some(overheard.clone()),
            Errors::Log | Errors::Repeat => None,
        };
        Chatter { reader, ..Chatter::new(server, secrets) }
    }

    /// Handles a stdout line that is not a message.
    pub(super) fn stray(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if let Some(reader) = &self.reader {
            reader.stray(&self.secrets.mask_cut(&text));
        }
        self.note("it wrote a line that is not a message", &text);
    }

    /// A line as it may be shown. Its end may have been cut off.
    pub(super) fn mask<'l>(&self, line: &'l str) -> Cow<'l, str> {
        self.secrets.mask_cut(line)
    }

    /// Logs a line without its secrets, unless the rate limit is exceeded.
    pub(super) fn note(&self, what: &'static str, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        if let Some(reader) = &self.reader {
            reader.push(&self.mask(line));
            return;
        }
        let Some(left_out) = self.admits() else { return };
        if left_out > 0 {
            tracing::warn!(
                server = &*self.server,
                left_out,
                "it wrote too many lines; some were left out"
            );
        }
        let start = line.split_at(line.floor_char_boundary(LONGEST * 4)).0;
        let line = harmless(&self.mask(start));
        tracing::info!(server = &*self.server, line, "{what}");
    }

    /// Logs a warning about the server for its operator.
    pub(super) fn warn(&self, what: &'static str) {
        tracing::warn!(server = &*self.server, "{what}");
    }

    /// Notes that there will be no more lines.
    pub(super) fn close(&self) {
        if let Some(reader) = &self.reader {
            reader.close();
        }
    }

    /// Counts a line. Returns how many lines were omitted before it; `None` if it must be
    /// omitted too.
    fn admits(&self) -> Option<u64> {
        let mut spent = self.spent.lock().ok()?;
        if spent.since.elapsed() > WINDOW {
            (spent.since, spent.lines) = (Instant::now(), 0);
        }
        if spent.lines >= MOST_LINES {
            spent.left_out += 1;
            return None;
        }
        spent.lines += 1;
        Some(std::mem::take(&mut spent.left_out))
    }
}

/// The beginning of a text, with control characters replaced.
pub(super) fn harmless(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.trim_end().chars().take(LONGEST).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::{Chatter, MOST_LINES, Secrets, harmless};

    #[tokio::test(start_paused = true)]
    async fn the_number_of_lines_in_a_window_is_limited() {
        let chatter = Chatter::new("s", Secrets::default());
        let admitted = (0..MOST_LINES * 2).filter(|_| chatter.admits().is_some()).count();
        assert_eq!(admitted, MOST_LINES as usize);
        tokio::time::advance(super::WINDOW * 2).await;
        assert_eq!(chatter.admits(), Some(u64::from(MOST_LINES)));
        assert_eq!(chatter.admits(), Some(0));
    }

    #[test]
    fn lines_are_made_harmless_and_short() {
        assert_eq!(harmless("\x1b[31mred\r\n"), "\u{fffd}[31mred");
        assert_eq!(harmless(&"x".repeat(9999)).len(), super::LONGEST);
    }
}
