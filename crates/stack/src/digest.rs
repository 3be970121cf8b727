//! Digests: of whole files, of values independent of the order of keys, and keyed
//! digests of entries, which do not reveal their secrets.

use std::fmt;

use data_encoding::HEXLOWER;
use ring::{
    digest::{SHA256, digest},
    hmac,
};
use serde_json::Value;

use crate::entry::Entry;

/// The SHA-256 of some bytes, in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

/// The digest of a JSON value, independent of the order of its keys.
pub(crate) fn of_value(value: &Value) -> String {
    sha256(sort_keys(value).to_string().as_bytes())
}

/// Keyed digests of entries, including their secrets. Without the key, nobody can guess secrets by
/// comparing digests.
#[derive(Clone)]
pub struct Fingerprints(hmac::Key);

impl Fingerprints {
    pub fn new(key: &[u8]) -> Fingerprints {
        Fingerprints(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The fingerprint of an entry. It changes with any word, value or folder of the entry.
    pub fn of(&self, entry: &Entry) -> String {
        self.of_text(entry.exact.expose())
    }

    pub(crate) fn of_text(&self, text: &str) -> String {
        HEXLOWER.encode(hmac::sign(&self.0, text.as_bytes()).as_ref())
    }
}

impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprints")
    }
}

/// A value with sorted keys.
pub(crate) fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<_> = members.iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            keys.into_iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect()
        }
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        other => other.clone(),
    }
}
