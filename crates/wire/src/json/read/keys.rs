//! Detects duplicate keys in an object.
//!
//! Small objects compare each new key with the ones before it; large ones are
//! sorted once at their end, so that many keys cannot cost quadratic time.

use super::{super::refusal::Reason, Open, Reader, Refusal, Shape};

/// Up to this many keys are compared one by one.
const FEW: usize = 16;

/// The keys of all open objects, innermost last: a digest and the key's node.
#[derive(Debug)]
pub(super) struct OpenKeys(Vec<(u64, u32)>);

impl OpenKeys {
    pub(super) fn new() -> OpenKeys {
        // Enough for most messages, so that it rarely grows.
        OpenKeys(Vec::with_capacity(FEW))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }
}

impl Reader<'_> {
    /// Records the key just pushed, which starts at `start`, and refuses it if the object is still
    /// small and has it already.
    pub(super) fn refuse_early_repeat(&mut self, start: usize) -> Result<(), Refusal> {
        let index = self.next_index() - 1;
        let name = self.name(index);
        let digest = digest(name.as_bytes());
        let before = self.open.last().map_or(0, |open| open.keys_before);
        let siblings = self.keys.0.get(before..).unwrap_or_default();
        if siblings.len() < FEW {
            for &(other, sibling) in siblings {
                if other == digest && self.name(sibling) == name {
                    return refuse_repeated(start, name);
                }
            }
        }
        self.keys.0.push((digest, index));
        Ok(())
    }

    /// Refuses duplicates in an object that is too large for comparing keys one by one.
    pub(super) fn refuse_late_repeats(&mut self, open: &Open) -> Result<(), Refusal> {
        if open.count as usize <= FEW {
            return Ok(());
        }
        let mut keys = std::mem::take(&mut self.keys.0);
        let own = keys.get_mut(open.keys_before..).unwrap_or_default();
        own.sort_unstable_by(|&(a, left), &(b, right)| {
            a.cmp(&b).then_with(|| self.name(left).cmp(self.name(right))).then(left.cmp(&right))
        });
        let repeat = own
            .windows(2)
            .filter_map(|pair| match pair {
                &[(a, left), (b, right)] => {
                    (a == b && self.name(left) == self.name(right)).then_some(right)
                }
                _ => None,
            })
            .min();
        self.keys.0 = keys;
        match repeat {
            None => Ok(()),
            Some(index) => {
                let start = self.nodes.get(index as usize).map_or(0, |node| node.start as usize);
                refuse_repeated(start, self.name(index))
            }
        }
    }

    /// The content of a string node.
    fn name(&self, index: u32) -> &str {
        let Some(node) = self.nodes.get(index as usize) else { return "" };
        let content = match node.shape {
            Shape::Decoded { from, to } => self.decoded.get(from as usize..to as usize),
            _ => self.text.get(node.start as usize + 1..node.end as usize - 1),
        };
        content.unwrap_or_default()
    }
}

fn refuse_repeated(offset: usize, name: &str) -> Result<(), Refusal> {
    let shown: String = name.chars().take(64).collect();
    Err(Refusal { offset, reason: Reason::DuplicateKey(shown) })
}

/// A quick digest that distinguishes most keys. If digests are equal, the keys themselves are
/// compared, so a collision only costs time.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let (chunks, tail) = bytes.as_chunks::<8>();
    let mut state = bytes.len() as u64;
    for chunk in chunks {
        state = (state ^ u64::from_le_bytes(*chunk)).wrapping_mul(MIX).rotate_left(29);
    }
    tail.iter().fold(state, |state, &byte| (state ^ u64::from(byte)).wrapping_mul(MIX))
}
