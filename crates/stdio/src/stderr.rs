//! Reading a child's stderr: the last lines are kept, and all of it goes to the log or to
//! this process's own stderr.

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStderr,
};

use super::{
    lines::{Line, Lines},
    output_log::Chatter,
    recent_output::Overheard,
};

/// The longest line of stderr that is kept whole, in bytes.
const LONGEST_LINE: usize = 4 << 10;

/// Copies a child's stderr to the log.
pub(super) async fn log(errors: ChildStderr, chatter: Chatter, kept: Option<Overheard>) {
    let mut lines = Lines::new(errors, LONGEST_LINE);
    while let Ok(Some(line)) = lines.next(u64::MAX).await {
        let (what, line) = match line {
            Line::Whole(line) => ("it writes", line),
            Line::TooLong { ends, .. } => ("it writes a long line", ends.head),
        };
        if let Some(kept) = &kept {
            kept.push(&line);
        }
        chatter.note(what, &line);
    }
    chatter.close();
    if let Some(kept) = kept {
        kept.close();
    }
}

/// Copies a child's stderr to this process's own stderr, byte for byte.
pub(super) async fn repeat(mut errors: impl AsyncRead + Unpin, kept: Overheard) {
    let mut output = tokio::io::stderr();
    let (mut bytes, mut line) = (vec![0; 8 << 10], Vec::new());
    while let Ok(length @ 1..) = errors.read(&mut bytes).await {
        let read = bytes.get(..length).unwrap_or_default();
        // The child must not be affected if no one reads this process's stderr.
        let _ = output.write_all(read).await;
        let _ = output.flush().await;
        for byte in read {
            if *byte == b'\n' {
                kept.push(&line);
                line.clear();
            } else if line.len() < LONGEST_LINE {
                line.push(*byte);
            }
        }
    }
    if !line.is_empty() {
        kept.push(&line);
    }
    kept.close();
}
