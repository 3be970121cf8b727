//! Numbers that look random and follow from a seed (`SplitMix64`).

use std::hash::{BuildHasher as _, RandomState};

#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A seed that differs from run to run.
    pub(super) fn seed() -> u64 {
        RandomState::new().hash_one(())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// The same values in another order.
    pub(super) fn shuffle<T: Copy>(&mut self, values: &[T]) -> Vec<T> {
        let mut values = values.to_vec();
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
        values
    }
}
