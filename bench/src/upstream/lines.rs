//! The same server over stdio: one message per line.

use std::io::{self, BufRead as _, Write as _};

use super::{
    answer::{self, Answers},
    find,
};
use crate::era::Era;

/// Answers until the input ends. Messages that arrive together are answered together.
pub(super) fn serve(answers: &Answers) -> anyhow::Result<()> {
    let mut input = io::BufReader::new(io::stdin().lock());
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if let Some(id) = find::id(&line) {
            let reply = match find::method(&line) {
                Some(b"tools/call") => answers.call(id),
                Some(b"tools/list") => answers.list(id),
                Some(b"initialize") if answers.era == Era::Legacy => answers.initialize(id),
                Some(b"server/discover") if answers.era == Era::Modern => answers.discover(id),
                Some(b"ping") => answer::pong(id),
                _ => answer::unknown(id),
            };
            for piece in reply.pieces() {
                output.write_all(piece)?;
            }
            output.write_all(b"\n")?;
        }
        if memchr::memchr(b'\n', input.buffer()).is_none() {
            output.flush()?;
        }
    }
}
