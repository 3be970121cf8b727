//! Reading a child's stderr: the last lines are kept, and all of it goes to the log or to
//! this process's own stderr.

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStderr,
};

use sluice_wire::secrets::Secrets;

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
        let line = String::from_utf8_lossy(&line);
        if let Some(kept) = &kept {
            kept.push(&chatter.mask(&line));
        }
        chatter.note(what, &line);
    }
    chatter.close();
    if let Some(kept) = kept {
        kept.close();
    }
}

/// Copies a child's stderr to this process's own stderr: byte for byte, but without secrets.
pub(super) async fn repeat(mut errors: impl AsyncRead + Unpin, secrets: Secrets, kept: Overheard) {
    let mut output = tokio::io::stderr();
    let (mut bytes, mut line) = (vec![0; 8 << 10], Vec::new());
    let mut masked = secrets.output();
    let keep = |line: &[u8]| kept.push(&secrets.mask_cut(&String::from_utf8_lossy(line)));
    while let Ok(length @ 1..) = errors.read(&mut bytes).await {
        let read = bytes.get(..length).unwrap_or_default();
        let shown = masked.as_mut().and_then(|masked| masked.push(read));
        // The child must not be affected if no one reads this process's stderr.
        let _ = output.write_all(shown.as_deref().unwrap_or(read)).await;
        let _ = output.flush().await;
        for byte in read {
            if *byte == b'\n' {
                keep(&line);
                line.clear();
            } else if line.len() < LONGEST_LINE {
                line.push(*byte);
            }
        }
    }
    if let Some(mut masked) = masked {
        let _ = output.write_all(&masked.finish()).await;
        let _ = output.flush().await;
    }
    if !line.is_empty() {
        keep(&line);
    }
    kept.close();
}
