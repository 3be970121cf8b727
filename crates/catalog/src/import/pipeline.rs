//! The import pipeline: reading, classifying and writing run in parallel.
//!
//! Pieces are handed to the workers round-robin and collected in the same order, so
//! that the result does not depend on which worker was faster. The channels bound the
//! amount of work in progress.

use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use super::{
    Imported, LONGEST_TEXT,
    pieces::{At, Piece, Pieces},
    prepare::{self, Prepared},
    replace::Replacer,
};
use crate::evidence::Keep;

/// The size of a batch: the maximum number of pieces, or of bytes.
const MOST_PIECES: usize = 64;
const MOST_BYTES: usize = 256 << 10;
/// Batches queued for one worker, and for the writer.
const WAITING: usize = 2;
/// More workers than this would only wait for the writer.
const MOST_WORKERS: usize = 4;

/// Why a pipeline ended.
#[derive(Debug)]
pub(super) enum Failure {
    Read(io::Error),
    Store(rusqlite::Error),
}

/// The result of a worker for one piece.
pub(super) struct Outcome {
    pub(super) at: At,
    pub(super) prepared: Result<Prepared, String>,
}

/// The results of a worker for several pieces, and how far the file has been read.
type Batch = (Vec<Outcome>, u64);

pub(super) fn run(
    mut pieces: Pieces,
    name: &str,
    mut writer: Replacer<'_>,
) -> Result<Imported, Failure> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS);
    let bytes = pieces.bytes;
    thread::scope(|scope| {
        let mut to_workers: Vec<SyncSender<(Vec<Piece>, u64)>> = Vec::new();
        let mut from_workers: Vec<Receiver<Batch>> = Vec::new();
        for _ in 0..workers {
            let (to_worker, pieces) = sync_channel::<(Vec<Piece>, u64)>(WAITING);
            let (done, from_worker) = sync_channel::<Batch>(WAITING);
            scope.spawn(move || {
                for (batch, read) in pieces {
                    let outcomes =
                        batch.into_iter().map(|piece| understand(&piece, name)).collect();
                    if done.send((outcomes, read)).is_err() {
                        break;
                    }
                }
            });
            to_workers.push(to_worker);
            from_workers.push(from_worker);
        }
        let reader = scope.spawn(move || deal(&mut pieces, &to_workers));
        for from_worker in from_workers.iter().cycle() {
            let Ok((outcomes, read)) = from_worker.recv() else { break };
            let written = writer.write(outcomes, read, bytes).map_err(Failure::Store);
            if written.is_err() {
                // The workers and the reader stop when the receiver is dropped.
                drop(from_workers);
                return written.map(|()| Imported::default());
            }
        }
        drop(from_workers);
        let read = reader.join().unwrap_or_else(|_| Err(io::Error::other("reading has failed")));
        let imported = writer.end().map_err(Failure::Store)?;
        read.map(|()| imported).map_err(Failure::Read)
    })
}

/// Reads pieces and distributes them round-robin.
fn deal(pieces: &mut Pieces, workers: &[SyncSender<(Vec<Piece>, u64)>]) -> io::Result<()> {
    for worker in workers.iter().cycle() {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < MOST_PIECES && bytes < MOST_BYTES {
            let Some(piece) = pieces.next()? else { break };
            bytes += piece.text.len();
            batch.push(piece);
        }
        if batch.is_empty() || worker.send((batch, pieces.taken)).is_err() {
            break;
        }
    }
    Ok(())
}

fn understand(piece: &Piece, name: &str) -> Outcome {
    let prepared = if piece.is_cut {
        Err(format!("it is longer than {} MiB", LONGEST_TEXT >> 20))
    } else {
        prepare::read(&piece.text, name, Keep::Quotes)
    };
    Outcome { at: piece.at, prepared }
}
