//! A stream in pieces, as a connection may deliver it.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    iter,
};

/// The data in pieces of 0 to 31 bytes. Their lengths follow from the data, so that an input fails
/// in the same way each time.
pub(crate) fn cut(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    let (mut state, mut rest) = (hasher.finish(), data);
    iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length = usize::try_from(state >> 59).unwrap_or(1);
        let (piece, after) = rest.split_at(length.min(rest.len()));
        let is_over = rest.is_empty();
        rest = after;
        (!is_over).then_some(piece)
    })
}
