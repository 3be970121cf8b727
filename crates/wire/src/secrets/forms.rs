//! The forms in which a secret may appear in what a server writes.

use std::{collections::BTreeSet, fmt::Write as _};

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};

use crate::edit::quote;

/// Longer secrets are searched for piece by piece. It bounds the bytes that are held back
/// while they may be the beginning of a secret.
const LONGEST_PIECE: usize = 512;
/// Shorter lines of a secret of several lines are not secrets by themselves.
const SHORTEST_LINE: usize = 8;

/// All forms of a secret that are at least this long: of the whole, and of each of its
/// lines.
pub(super) fn forms(secret: &str, shortest: usize) -> BTreeSet<Vec<u8>> {
    let lines = secret.split(['\r', '\n']).map(str::trim);
    // The armour around a key is not secret.
    let lines = lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"));
    let mut forms = BTreeSet::new();
    for part in std::iter::once(secret).chain(lines) {
        for piece in pieces(part) {
            collect(piece, &mut forms);
        }
    }
    forms.retain(|form| form.len() >= shortest);
    forms
}

/// Splits a text into pieces of a bounded length; none is short if the text is not.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while text.len() > 2 * LONGEST_PIECE {
        let (piece, rest) = text.split_at(text.ceil_char_boundary(LONGEST_PIECE));
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

fn collect(piece: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let json = inner(&quote(piece));
    let texts = [
        piece.to_owned(),
        // In JSON within JSON.
        inner(&quote(&json)),
        // As written in PHP, and the same within JSON.
        json.replace('/', "\\/"),
        json.replace('/', "\\\\/"),
        // In ASCII only, as written in Python.
        escape(&json, |c| !c.is_ascii()),
        // For web pages, as written in Go and .NET.
        escape(&json, |c| "<>&".contains(c)),
        escape(piece, |c| !c.is_ascii() || "<>&'\"+`\\".contains(c)),
        json,
        percent_encoded(piece, b"-._~", "%20"),
        // As `encodeURIComponent` and `encodeURI` do, and as forms are sent.
        percent_encoded(piece, b"-._~!*'()", "%20"),
        percent_encoded(piece, b"-._~!*'();,/?:@&=+$#", "%20"),
        percent_encoded(piece, b"-._*", "+"),
    ];
    forms.extend(texts.map(String::into_bytes));
    for offset in 0..3 {
        let mut shifted = vec![0; offset];
        shifted.extend_from_slice(piece.as_bytes());
        for encoded in [BASE64_NOPAD.encode(&shifted), BASE64URL_NOPAD.encode(&shifted)] {
            forms.extend(certain(&encoded, offset, shifted.len()));
        }
    }
}

/// The part of a base64 text that does not depend on what surrounds the secret, which begins
/// at this offset and ends here.
fn certain(encoded: &str, offset: usize, end: usize) -> Option<Vec<u8>> {
    // Each character carries six bits.
    let first = (offset * 8).div_ceil(6);
    let last = end * 8 / 6;
    encoded.as_bytes().get(first..last).map(<[u8]>::to_vec)
}

/// A quoted text without its quotes.
fn inner(quoted: &str) -> String {
    let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(quoted).to_owned()
}

/// Writes these characters as `\u…`.
fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Percent-encodes all but letters, digits and these signs.
fn percent_encoded(text: &str, plain: &[u8], space: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push_str(space),
            _ if byte.is_ascii_alphanumeric() || plain.contains(&byte) => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02x}");
            }
        }
    }
    encoded
}

/// Decodes `%41` and the like.
pub(super) fn percent_decoded(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = value.filter(|_| *first == b'%') {
            decoded.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            decoded.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
