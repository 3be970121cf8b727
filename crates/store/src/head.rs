//! The head: a small file outside the database that says what must be in it. It holds the
//! identity of the database, the end of the log, and sums over the tables that the log does
//! not cover, all under a keyed hash.
//!
//! Each transaction writes it just before it commits, while it has the only lock for
//! writing, with the state before and after. So the database is always at one of the two: at
//! the second one, or at the first if the process was killed in between or the commit
//! failed. When the store is idle, the head is written again with one state, so only the
//! very last transaction of a killed process can be lost unnoticed. Nothing is synced: after
//! a power loss the head may be older than a log that was synced, and is then accepted as
//! long as the log contains its record and goes on from there.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use ring::hmac;

use crate::{
    chain::{ChainEnd, Hash},
    key::Key,
};

/// Where it is in a data directory.
const FOLDER: &str = "keys";
const NAME: &str = "head";
/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"sluice-1";
const SUM: usize = 16;
const STATE: usize = 8 + 32 + PARTS.len() * SUM;
/// Its length without the keyed hash.
const BODY: usize = MAGIC.len() + 16 + 2 * STATE;
const LENGTH: usize = BODY + 32;
/// Another process may be writing it while it is read.
const MOST_READS: u32 = 5;

/// What the sums are over.
pub(crate) const PARTS: [&str; 4] = [
    "the counters",
    "the held calls",
    "the servers, policies, grants or settings",
    "the index of the log",
];

/// Sums over the rows of tables, by [`PARTS`].
pub(crate) type Sums = [u128; PARTS.len()];

/// The random identity of a database.
pub(crate) type Incarnation = [u8; 16];

/// A committed state of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) end: ChainEnd,
    pub(crate) sums: Sums,
}

/// The contents of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) incarnation: Incarnation,
    /// The state before the last transaction.
    pub(crate) before: Extent,
    /// The state after it.
    pub(crate) after: Extent,
}

/// How a database differs from what its head says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    #[error("{} records are missing at the end: the log ends with record {end}, and had reached {noted}", noted - end)]
    Short { end: i64, noted: i64 },
    #[error("record {0} is not the one that was written")]
    Replaced(i64),
    #[error("this is another database than the one that had reached record {0}")]
    Foreign(i64),
    #[error("{0} were changed by another program")]
    Changed(&'static str),
    #[error("the key `keys/master` is missing, without which nothing can be checked")]
    NoKey,
    #[error("the head `keys/head` is missing, which says where the log ends")]
    NoHead,
    #[error("the head `keys/head` is damaged, or was written with another key")]
    BadHead,
    #[error("the head `keys/head` is older than the log, which goes on for {0} records")]
    OldHead(i64),
}

impl Disagreement {
    /// The number of the record concerned, or 0.
    pub(crate) fn sequence(&self) -> i64 {
        match self {
            Disagreement::Short { noted, .. } => *noted,
            Disagreement::Replaced(seq) => *seq,
            _ => 0,
        }
    }
}

/// Which state of its head a database is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    At(Sums),
    /// The last transaction appended no record, and may have been committed or not.
    Either(Sums, Sums),
    /// It has so many records more.
    Beyond(i64),
}

impl Head {
    /// The head of a new database.
    pub(crate) fn of_new(incarnation: Incarnation, extent: Extent) -> Head {
        Head { incarnation, before: extent, after: extent }
    }

    /// Compares the end of a log. `find` returns the hash of a record, or `None` if there is
    /// no such record; `pruned` is the last record that was pruned.
    pub(crate) fn place<E>(
        &self,
        end: ChainEnd,
        pruned: i64,
        find: impl FnOnce(i64) -> Result<Option<Hash>, E>,
    ) -> Result<Result<Standing, Disagreement>, E> {
        let Head { before, after, .. } = *self;
        if end == before.end && end == after.end {
            let is_one = before.sums == after.sums;
            let either = Standing::Either(before.sums, after.sums);
            return Ok(Ok(if is_one { Standing::At(after.sums) } else { either }));
        }
        for state in [after, before] {
            if end == state.end {
                return Ok(Ok(Standing::At(state.sums)));
            }
        }
        let noted = after.end.seq;
        if end.seq < noted {
            return Ok(Err(if end.seq == before.end.seq {
                Disagreement::Replaced(end.seq)
            } else {
                // A transaction that did not commit is not missing.
                let is_before = end.seq < before.end.seq;
                let noted = if is_before { before.end.seq } else { noted };
                Disagreement::Short { end: end.seq, noted }
            }));
        }
        let known = before.end;
        let is_same = known.seq <= pruned || known.seq == 0 || find(known.seq)? == Some(known.hash);
        Ok(if is_same {
            Ok(Standing::Beyond(end.seq - known.seq))
        } else {
            Err(Disagreement::Replaced(known.seq))
        })
    }

    fn encode(&self, key: &hmac::Key) -> [u8; LENGTH] {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend(MAGIC);
        bytes.extend(self.incarnation);
        for Extent { end, sums } in [self.before, self.after] {
            bytes.extend(end.seq.to_le_bytes());
            bytes.extend(end.hash);
            for sum in sums {
                bytes.extend(sum.to_le_bytes());
            }
        }
        let tag = hmac::sign(key, &bytes);
        bytes.extend(tag.as_ref());
        // The parts have these lengths, so the conversion cannot fail.
        bytes.try_into().unwrap_or([0; LENGTH])
    }

    fn decode(bytes: &[u8; LENGTH], key: &hmac::Key) -> Option<Head> {
        let (body, tag) = bytes.split_at_checked(BODY)?;
        hmac::verify(key, body, tag).ok()?;
        let mut rest = body.strip_prefix(&MAGIC)?;
        let incarnation = take(&mut rest)?;
        let mut extent = || {
            let seq = i64::from_le_bytes(take(&mut rest)?);
            let hash = take(&mut rest)?;
            let mut sums = Sums::default();
            for sum in &mut sums {
                *sum = u128::from_le_bytes(take(&mut rest)?);
            }
            Some(Extent { end: ChainEnd { seq, hash }, sums })
        };
        Some(Head { incarnation, before: extent()?, after: extent()? })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

/// The open file.
#[derive(Debug)]
pub(crate) struct HeadFile {
    file: File,
    key: hmac::Key,
}

impl HeadFile {
    /// Its path in a data directory.
    pub(crate) fn path(directory: &Path) -> PathBuf {
        directory.join(FOLDER).join(NAME)
    }

    /// Opens the file of a data directory, if there is one.
    pub(crate) fn open(
        directory: &Path,
        master: &Key,
        is_written: bool,
    ) -> io::Result<Option<HeadFile>> {
        let opened =
            OpenOptions::new().read(true).write(is_written).open(HeadFile::path(directory));
        match opened {
            Ok(file) => Ok(Some(HeadFile { file, key: derive(master) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates or replaces the file, and has it on disk when this returns.
    pub(crate) fn create(directory: &Path, master: &Key, head: &Head) -> io::Result<HeadFile> {
        let (folder, path) = (directory.join(FOLDER), HeadFile::path(directory));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let new = path.with_extension("new");
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        let made = HeadFile { file: options, key: derive(master) };
        made.write(head)?;
        made.file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&folder)?.sync_all()?;
        Ok(made)
    }

    /// The permissions of the file.
    pub(crate) fn mode(&self) -> io::Result<u32> {
        Ok(self.file.metadata()?.mode() & 0o777)
    }

    /// The head in it; `None` if that is not one, or not with this key.
    pub(crate) fn read(&self) -> io::Result<Option<Head>> {
        for _ in 0..MOST_READS {
            let mut bytes = [0; LENGTH];
            match self.file.read_exact_at(&mut bytes, 0) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                read => read?,
            }
            if let Some(head) = Head::decode(&bytes, &self.key) {
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Writes a head, without syncing.
    pub(crate) fn write(&self, head: &Head) -> io::Result<()> {
        self.file.write_all_at(&head.encode(&self.key), 0)
    }
}

fn derive(master: &Key) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, master.derive("sluicegate log head").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{Disagreement, Extent, Head, LENGTH, Standing, Sums, derive};
    use crate::{chain::ChainEnd, key::Key};

    fn extent(seq: i64, sum: u128) -> Extent {
        Extent { end: end(seq), sums: Sums::default().map(|_| sum) }
    }

    fn end(seq: i64) -> ChainEnd {
        ChainEnd { seq, hash: [u8::try_from(seq).unwrap(); 32] }
    }

    fn head() -> Head {
        Head { incarnation: [9; 16], before: extent(5, 1), after: extent(8, 2) }
    }

    fn place(head: &Head, end: ChainEnd) -> Result<Standing, Disagreement> {
        let hash = |seq: i64| Ok::<_, Infallible>(Some([u8::try_from(seq).unwrap(); 32]));
        head.place(end, 0, hash).unwrap()
    }

    #[test]
    fn a_head_is_read_back_only_unchanged_and_with_its_key() {
        let (key, other) = (derive(&Key::from_bytes([7; 32])), derive(&Key::from_bytes([8; 32])));
        let bytes = head().encode(&key);
        assert_eq!(Head::decode(&bytes, &key), Some(head()));
        assert_eq!(Head::decode(&bytes, &other), None);
        for place in 0..LENGTH {
            let mut changed = bytes;
            changed[place] ^= 1;
            assert_eq!(Head::decode(&changed, &key), None, "{place}");
        }
    }

    #[test]
    fn a_database_is_before_or_after_the_last_transaction() {
        let (before, after) = (Standing::At([1; 4]), Standing::At([2; 4]));
        assert_eq!(place(&head(), end(5)), Ok(before));
        assert_eq!(place(&head(), end(8)), Ok(after));
        let silent = Head { after: extent(5, 2), ..head() };
        assert_eq!(place(&silent, end(5)), Ok(Standing::Either([1; 4], [2; 4])));
        let confirmed = Head { before: extent(8, 2), ..head() };
        assert_eq!(place(&confirmed, end(8)), Ok(after));
    }

    #[test]
    fn what_is_missing_is_counted() {
        let short = |end, noted| Err(Disagreement::Short { end, noted });
        assert_eq!(place(&head(), end(0)), short(0, 5));
        assert_eq!(place(&head(), end(4)), short(4, 5));
        // A transaction is committed whole.
        assert_eq!(place(&head(), end(6)), short(6, 8));
    }

    #[test]
    fn another_log_of_the_same_length_is_told_apart() {
        let other = |seq| ChainEnd { hash: [0; 32], ..end(seq) };
        assert_eq!(place(&head(), other(5)), Err(Disagreement::Replaced(5)));
        let none = |_| Ok::<_, Infallible>(None);
        assert_eq!(head().place(other(9), 0, none).unwrap(), Err(Disagreement::Replaced(5)));
        assert_eq!(place(&head(), end(9)), Ok(Standing::Beyond(4)));
        assert_eq!(head().place(end(9), 5, none).unwrap(), Ok(Standing::Beyond(4)));
    }
}
