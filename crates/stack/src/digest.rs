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

/// The same for a JSON value: equal for values that mean the same, however they
/// are written.
pub(crate) fn of_value(value: &Value) -> String {
    sha256(sort_keys(value).to_string().as_bytes())
}

/// Digests of entries, secrets and all. Without the key nobody can try which
/// secret leads to one.
#[derive(Clone)]
pub struct Fingerprints(hmac::Key);

impl Fingerprints {
    pub fn new(key: &[u8]) -> Fingerprints {
        Fingerprints(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The same for the same words with the same values in the same folder only.
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

/// A value with its keys in order.
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
