//! What a child writes besides its messages, kept for somebody who wants to know
//! what it is doing, or why it ended.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tokio::sync::watch;

use super::chatter::LONGEST;

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

/// What is kept of a line.
fn kept(line: &[u8]) -> String {
    let start = line.get(..LONGEST * 4).unwrap_or(line);
    String::from_utf8_lossy(start).trim_end().chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, MOST_LINES, Overheard};

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
