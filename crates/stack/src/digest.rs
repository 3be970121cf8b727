//! Digests: of whole files, and of values whatever the order of their keys.

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// The SHA-256 of some bytes, in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

/// The same for a JSON value: equal for values that mean the same, however they
/// are written.
pub(crate) fn of_value(value: &Value) -> String {
    sha256(sorted(value).to_string().as_bytes())
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<_> = members.iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            keys.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
