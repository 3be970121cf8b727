//! The keys of the data path, all derived from the key in the settings.

use ring::hmac;
use sluice_store::Key;

use crate::seal::Seal;

/// See the module.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) seal: Seal,
    /// The key for digests of arguments.
    pub(crate) digests: hmac::Key,
}

impl Keys {
    /// `None` only if the derived key does not have the length that the cipher needs.
    pub(crate) fn derive(key: &Key) -> Option<Keys> {
        let digests = hmac::Key::new(hmac::HMAC_SHA256, key.derive("argument digests").as_bytes());
        Some(Keys { seal: Seal::new(key)?, digests })
    }
}
