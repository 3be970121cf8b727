//! Finds duplicate names in the objects of an answer that streams by, from digests of the
//! names alone.

use smallvec::SmallVec;

use super::AnswerError;
use crate::json::read::digest;

/// Up to this many names are compared one by one; those of larger objects are sorted once
/// at the object's end.
const FEW: usize = 32;
/// The most names in objects that are open at the same time.
const MOST_NAMES: usize = 1 << 18;

/// Digests of the names in all open objects, innermost last.
#[derive(Debug, Default)]
pub(super) struct OpenNames {
    digests: SmallVec<[u64; 24]>,
    /// Where the names of each open object begin.
    begins: SmallVec<[u32; 8]>,
}

impl OpenNames {
    /// An object begins.
    pub(super) fn open(&mut self) {
        // INVARIANT: there are never more than `MOST_NAMES` digests.
        self.begins.push(u32::try_from(self.digests.len()).unwrap_or(u32::MAX));
    }

    /// Notes a name of the innermost object. Different names have the same digest with a
    /// probability of about 2⁻⁶⁴, and then a correct answer is refused.
    pub(super) fn note(&mut self, name: &str) -> Result<(), AnswerError> {
        let digest = digest(name.as_bytes());
        let siblings = self.digests.get(self.begin()..).unwrap_or_default();
        if siblings.len() < FEW && siblings.contains(&digest) {
            return Err(AnswerError::Ambiguous);
        }
        if self.digests.len() >= MOST_NAMES {
            return Err(AnswerError::TooManyNames(MOST_NAMES));
        }
        self.digests.push(digest);
        Ok(())
    }

    /// The innermost object ends.
    pub(super) fn close(&mut self) -> Result<(), AnswerError> {
        let begin = self.begin();
        self.begins.pop();
        let own = self.digests.get_mut(begin..).unwrap_or_default();
        if own.len() > FEW {
            own.sort_unstable();
            if own.windows(2).any(|pair| pair.first() == pair.last()) {
                return Err(AnswerError::Ambiguous);
            }
        }
        self.digests.truncate(begin);
        Ok(())
    }

    fn begin(&self) -> usize {
        self.begins.last().map_or(0, |begin| *begin as usize)
    }
}
