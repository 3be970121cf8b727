//! What rows are made of: numbers, texts, and what is told by how it
//! differs from the last of its kind in the row.

use sluice_policy::Timestamp;

use crate::id::Id;

/// Appends a number in as many bytes as it needs: seven bits in each, the lowest
/// first, and a bit that says whether another follows.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u128) {
    let mut rest = number;
    loop {
        let [low, ..] = rest.to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    push_number(out, text.len() as u128);
    out.extend_from_slice(text.as_bytes());
}

/// The last id and the last moment of a row: the next ones differ little.
#[derive(Debug, Default)]
pub(super) struct Last {
    id: (u128, u128),
    moment: u128,
}

impl Last {
    pub(super) fn push_id(&mut self, out: &mut Vec<u8>, id: Id) {
        let (time, rest) = id.split();
        push_number(out, difference(self.id.0, time));
        push_number(out, difference(self.id.1, rest));
        self.id = (time, rest);
    }

    pub(super) fn push_moment(&mut self, out: &mut Vec<u8>, at: Timestamp) {
        let millis = i128::from(at.as_millis()).cast_unsigned();
        push_number(out, difference(self.moment, millis));
        self.moment = millis;
    }

    pub(super) fn id(&mut self, rest: &mut Rest<'_>) -> Option<Id> {
        self.id = (sum(self.id.0, rest.number()?), sum(self.id.1, rest.number()?));
        Some(Id::join(self.id))
    }

    pub(super) fn moment(&mut self, rest: &mut Rest<'_>) -> Option<Timestamp> {
        self.moment = sum(self.moment, rest.number()?);
        i64::try_from(self.moment.cast_signed()).ok().map(Timestamp::from_millis)
    }
}

/// How one number differs from another: small if they are near, whichever is larger.
fn difference(from: u128, to: u128) -> u128 {
    let difference = to.wrapping_sub(from).cast_signed();
    (difference << 1 ^ difference >> 127).cast_unsigned()
}

fn sum(from: u128, difference: u128) -> u128 {
    from.wrapping_add(difference >> 1 ^ (difference & 1).wrapping_neg())
}

/// What is still to be read of a row.
pub(crate) struct Rest<'b>(pub(crate) &'b [u8]);

impl<'b> Rest<'b> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn number(&mut self) -> Option<u128> {
        let mut number = 0;
        for place in 0..u128::BITS.div_ceil(7) {
            let [byte] = self.array()?;
            number |= u128::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub(crate) fn text(&mut self) -> Option<&'b str> {
        let length = self.size()?;
        str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Rest, difference, push_number, sum};

    #[test]
    fn numbers_and_differences_go_both_ways() {
        let edges = [0, 1, 127, 128, 1 << 80, u128::MAX >> 1, (u128::MAX >> 1) + 1, u128::MAX];
        for number in edges {
            let mut bytes = Vec::new();
            push_number(&mut bytes, number);
            let mut rest = Rest(&bytes);
            assert_eq!((rest.number(), rest.0), (Some(number), [].as_slice()));
            for from in edges {
                assert_eq!(sum(from, difference(from, number)), number);
            }
        }
        assert_eq!([difference(9, 9), difference(9, 8), difference(8, 9)], [0, 1, 2]);
        assert_eq!(Rest(&[0x80; 30]).number(), None);
    }
}
