//! SHA-256 and hexadecimal digits.

use ring::digest;

/// The SHA-256 of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    // The digest has the length of the array, so the conversion cannot fail.
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    push_hex(&mut text, bytes);
    text
}

/// Appends lower-case hexadecimal.
pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble };
    for part in bytes.chunks(32) {
        // Digits are collected first, because one append to a string is faster than many.
        let mut digits = [0; 64];
        let (pairs, _) = digits.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(part) {
            *pair = [digit(byte >> 4), digit(byte & 15)];
        }
        let written = digits.get(..part.len() * 2).unwrap_or_default();
        text.push_str(str::from_utf8(written).unwrap_or_default());
    }
}

/// Reads lower-case hexadecimal of exactly 32 bytes.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{from_hex, hex, sha256};

    #[test]
    fn hexadecimal_text_is_read_back() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&sha256(b"abc")), text);
        assert_eq!(from_hex(text), Some(sha256(b"abc")));
        let (short, odd) = (text.replacen("ad", "", 1), text.replacen("ad", "a", 1));
        for bad in [&short, &odd, &text.to_uppercase(), &text.replace("ba", "é")] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
